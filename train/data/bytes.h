// Streams of bytes: of plain files, gzip files, and files in ZIP archives. Inputs that can be read
// only once, pipes and standard input, are kept for the process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringlet::train {

/// Fills the front of the span and returns the number of bytes; 0 at the end and after it.
using ByteSource = std::function<std::size_t(std::span<char>)>;

/// The bytes of a file; a gzip file and a file in a ZIP archive, as SNLI and MultiNLI are
/// downloaded, are unpacked. "-" is standard input. A missing file, a `.gz` that is not gzip and a
/// damaged or cut gzip file are InputError. Kept inputs are not opened.
ByteSource open_bytes(const std::filesystem::path& path);
/// The bytes of `text`, which must outlive the source.
ByteSource bytes_of(std::string_view text);

/// The input in messages: standard input for "-".
std::string input_name(const std::filesystem::path& path);
/// Whether a second reader of the path may get other bytes: "-", a pipe, a descriptor or a device.
bool is_read_once(const std::filesystem::path& path);
/// Each later open_bytes(path) gives `bytes`. InputError if the path has kept bytes: two inputs
/// cannot share a pipe. Like the two below it may be called while other threads read files.
void keep_input(const std::filesystem::path& path, std::string bytes);
std::vector<std::string> kept_inputs();  // their paths
/// For a process that runs several commands. Open sources keep their bytes.
void release_kept_inputs();

}  // namespace ringlet::train
