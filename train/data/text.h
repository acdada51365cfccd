// Text functions for data sets.
#pragma once

#include <string_view>

namespace ringlet::train {

/// `text` without white space at both ends, as Python's str.strip() defines it: with Unicode spaces
/// and the separators 0x1c to 0x1f.
std::string_view strip(std::string_view text);

}  // namespace ringlet::train
