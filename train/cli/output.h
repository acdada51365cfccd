// Checks of output paths, made before anything is read or written.
#pragma once

#include <filesystem>
#include <string_view>

namespace ringlet::cli {

/// A file can be created in `folder`, or in the nearest folder above it that exists. InputError
/// that begins with `option` otherwise.
void check_writable_folder(std::string_view option, const std::filesystem::path& folder);
/// `folder` is writable and does not exist or is empty, but for ringlet's own hidden files.
void check_new_folder(std::string_view option, const std::filesystem::path& folder);
/// `file` is no folder, and its folder exists and is writable.
void check_output_file(std::string_view option, const std::filesystem::path& file);
/// `file` is not the one that another option, `reader`, names as its input; "-" is standard input.
void check_not_input(std::string_view option, const std::filesystem::path& file,
                     std::string_view reader, const std::filesystem::path& input);

}  // namespace ringlet::cli
