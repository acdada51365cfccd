// A module's parameters and buffers in one safetensors file, for example of a custom head.
#pragma once

#include <filesystem>

#include "ringlet/core/io/safetensors.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// Writes every parameter and buffer under its name from `module`; the file appears complete or not
/// at all. Under a strategy over several ranks every rank calls it; rank 0 writes, and all return
/// when the file exists.
void save_module(const Module& module, const std::filesystem::path& path);

/// Reads such a file. InputError, with nothing changed, if a tensor of the module is missing,
/// another is there, or a shape or dtype differs. Under a strategy every rank calls it.
void load_module(Module& module, const std::filesystem::path& path);

// ---- the parts, for files that hold more ----------------------------------------------------

/// The names that save_module writes, with their dtypes and shapes; without `frozen`, not those of
/// parameters that are not trained.
std::vector<SafeTensorsWriter::Entry> saved_tensors(const Module& module, bool frozen = true);
/// InputError unless `file` has this tensor.
void check_tensor(const SafeTensors& file, const SafeTensorsWriter::Entry& expected);
/// InputError unless `file` holds the tensors of saved_tensors() and no others. Without `frozen` it
/// may lack parameters that are not trained.
void check_module(const SafeTensors& file, const Module& module, bool frozen = true);
/// Sets a parameter of `module` from the tensor `name` of a file that was checked.
void load_parameter(const Module& module, const Parameter& parameter, const SafeTensors& file,
                    const std::string& name);
/// Sets the parameters that the file has, and every buffer, from a file that was checked.
void load_module(Module& module, const SafeTensors& file);

}  // namespace ringlet::nn
