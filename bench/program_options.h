// Options that the bench programs share.
#pragma once

#include <string>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/device/device.h"
#include "ringlet/cuda/info.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/cli/model_options.h"

namespace ringlet::bench {

using cli::Command;
using cli::OneOf;
using cli::parse;

inline void add_device_option(Command& app, std::string& name) {
  app.add("--device", name, "cpu or cuda, perhaps with an index: cuda:1");
}

/// Makes it the default device. InputError if it does not exist.
inline Device use_device(const std::string& name) {
  const Device device = cli::existing_device(name);
  set_default_device(device);
  return device;
}

/// The instruction set of a CPU's kernels, or the name of a GPU.
inline std::string kernels_of(Device device) {
  if (device.type == DeviceType::cpu) return std::string(cpu::name(cpu::isa()));
  return cuda::info().gpus.at(static_cast<std::size_t>(device.index)).name;
}

}  // namespace ringlet::bench
