// Text as data sets need it.
#pragma once

#include <string_view>

namespace ringlet::train {

/// Without white space at both ends, as Python's str.strip() defines it (Unicode spaces and the
/// separators 0x1c to 0x1f included): what Sentence Transformers does to every text.
std::string_view strip(std::string_view text);

}  // namespace ringlet::train
