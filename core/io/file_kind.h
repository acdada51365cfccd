// Kinds of files, by their first bytes, for one clear message in place of a parser's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringlet {

/// First bytes that check_kind() needs at most.
inline constexpr std::size_t kKindBytes = 512;

/// `head` begins a file `name` that is to hold text or weights. InputError if it is known to be
/// something else, such as Parquet, an archive, UTF-16 or a git-lfs pointer: what, and what to do.
void check_kind(std::string_view head, const std::string& name);

}  // namespace ringlet
