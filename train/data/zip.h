// Files in ZIP archives, which SNLI and MultiNLI are downloaded as.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ringlet/train/data/byte_source.h"

namespace ringlet::train {

/// A file in an archive: "snli_1.0.zip/snli_1.0/snli_1.0_dev.jsonl" as a path.
struct ZipMember {
  std::filesystem::path archive;
  std::string name;  // without its folders if these are left out; empty: the only file
};

/// Nothing for a path on which no part is a file that ends in ".zip".
std::optional<ZipMember> zip_member(const std::filesystem::path& path);

/// The unpacked bytes. A damaged archive and a name of none or several files are InputError.
ByteSource open_zip(const ZipMember& member);

}  // namespace ringlet::train
