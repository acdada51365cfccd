// Text as data sets need it: stripping and validation.
#pragma once

#include <string_view>

namespace ringlet::train {

/// Without white space at both ends, as Python's str.strip() defines it (Unicode spaces and the
/// separators 0x1c to 0x1f included): what Sentence Transformers does to every text.
std::string_view strip(std::string_view text);

/// True if `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

}  // namespace ringlet::train
