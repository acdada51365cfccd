// Which device a bench measures.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/device.h"
#include "ringlet/cuda/info.h"
#include "ringlet/train/cli/existing_device.h"

namespace ringlet::bench {

inline void add_device_option(CLI::App& app, std::string& name) {
  app.add_option("--device", name, "cpu or cuda, perhaps with an index: cuda:1")
      ->capture_default_str();
}

/// From now on tensors are made there. InputError where it is not.
inline Device use_device(const std::string& name) {
  const Device device = cli::existing_device(name);
  set_default_device(device);
  return device;
}

/// Of a CPU the instruction set of its kernels, of a GPU its name.
inline std::string kernels_of(Device device) {
  if (device.type == DeviceType::cpu) return std::string(cpu::name(cpu::isa()));
  return cuda::info().gpus.at(static_cast<std::size_t>(device.index)).name;
}

}  // namespace ringlet::bench
