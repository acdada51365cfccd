// Model parallelism in one process: modules of one model on several devices.
//   nn::place(model, {{"encoder.layer.0-5", gpu0}, {"encoder.layer.6-11", gpu1}});
#pragma once

#include <string>
#include <vector>

#include "ringlet/nn/module.h"

namespace ringlet::nn {

struct Place {
  std::string modules;  // a pattern of name_pattern.h
  Device device;
};

/// Moves the modules that each pattern names to its device, with all below; later places prevail.
/// Before an optimizer is made. Error, with nothing moved, if a pattern names no module. Where one
/// module's output is another's input, forward copies it (autograd::to); encoders do.
void place(Module& module, const std::vector<Place>& places);

/// Whether the parameters are on more than one device.
bool on_several_devices(const Module& module);

}  // namespace ringlet::nn
