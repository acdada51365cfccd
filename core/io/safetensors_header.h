// The header of a safetensors file, checked completely while it is read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/io/json.h"
#include "ringlet/core/tensor/shape.h"

namespace ringlet::safetensors {

/// The header's length, little-endian, which precedes the header.
inline constexpr std::size_t kLengthBytes = 8;
inline constexpr const char* kMetadata = "__metadata__";

/// The dtype's name in capitals: F32, BF16, …
std::string format_name(DType dtype);

/// Parses JSON; a name that appears twice in one object is an error.
Json parse_object(const std::filesystem::path& path, std::string_view text);

/// The size of the header in a file with this text.
std::size_t header_bytes(const std::filesystem::path& path, std::string_view text);

struct HeaderEntry {
  std::string name;
  std::size_t begin = 0;  // bytes in the data
  std::size_t end = 0;
  Shape shape;
  DType dtype = DType::f32;
  std::string refusal;  // why it cannot be read; empty if it can
};

/// The entries of a header, in the order of their data; they must cover the data exactly once.
std::vector<HeaderEntry> read_entries(const std::filesystem::path& path, const Json& header,
                                      std::size_t data_bytes);
void read_metadata(const std::filesystem::path& path, const Json& value,
                   std::map<std::string, std::string>& metadata);

}  // namespace ringlet::safetensors
