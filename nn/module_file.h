// A module's parameters and buffers as one safetensors file, for a head of one's own for example.
#pragma once

#include <filesystem>

#include "ringlet/core/safetensors.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// Writes every parameter and buffer under its name from `module`; the file appears whole or not at
/// all. Under a strategy over several ranks all call it, rank 0 writes, and all return when the
/// file is there.
void save_module(const Module& module, const std::filesystem::path& path);

/// Reads such a file. InputError where it lacks a tensor of the module, has another one, or one of
/// another shape or dtype; then nothing is changed. Under a strategy all ranks call it.
void load_module(Module& module, const std::filesystem::path& path);

// ---- the parts, for files that hold more ----------------------------------------------------

/// The names that save_module writes, and tensors of their shapes and dtypes.
NamedTensors saved_tensors(const Module& module);
/// InputError unless `file` has a tensor `name` of that shape and dtype.
void check_tensor(const SafeTensors& file, const std::string& name, const Tensor& expected);
/// InputError unless `file` holds what saved_tensors() says and nothing else.
void check_module(const SafeTensors& file, const Module& module);
/// Sets every parameter and buffer from a file that was checked.
void load_module(Module& module, const SafeTensors& file);

}  // namespace ringlet::nn
