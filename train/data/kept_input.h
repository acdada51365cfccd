// Inputs that can be read only once, pipes and standard input, kept for the process.
#pragma once

#include <filesystem>
#include <string>

namespace ringlet::train {

/// Standard input, as "-", in messages.
inline constexpr const char* kStandardInput = "standard input";

/// Whether a second reader of the path may get other bytes: "-", a pipe, a descriptor or a device.
bool is_read_once(const std::filesystem::path& path);

/// Each later open_bytes(path) gives `bytes`. Call it before other threads open files. InputError
/// if the path has kept bytes: two inputs cannot share a pipe.
void keep_input(const std::filesystem::path& path, std::string bytes);
/// For a process that runs several commands.
void release_kept_inputs();
/// Null if none are kept.
const std::string* kept_input(const std::filesystem::path& path);

}  // namespace ringlet::train
