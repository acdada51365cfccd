// SHA-256 digests.
#pragma once

#include <string>
#include <string_view>

namespace ringlet {

/// The digest of these bytes in hexadecimal, as sha256sum prints it.
std::string sha256(std::string_view bytes);
/// Its first 16 digits, for lines that people read.
inline std::string short_sha256(std::string_view bytes) { return sha256(bytes).substr(0, 16); }

}  // namespace ringlet
