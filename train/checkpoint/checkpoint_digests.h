// SHA256SUMS: the digests of a checkpoint's files, which `sha256sum -c` checks, too.
#pragma once

#include <filesystem>
#include <string>

namespace ringlet::train::checkpoint {

inline constexpr const char* kDigests = "SHA256SUMS";

/// Writes it for the other files in `folder`.
void write_digests(const std::filesystem::path& folder);
/// InputError unless it lists this digest for the file `name` of `folder`.
void check_digest(const std::filesystem::path& folder, const std::string& name);

}  // namespace ringlet::train::checkpoint
