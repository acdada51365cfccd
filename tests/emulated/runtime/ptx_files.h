// The PTX files of the library's kernels.
#pragma once

#include <string>
#include <vector>

namespace ringlet::emulated {

/// The texts of all files of this build.
const std::vector<std::string>& ptx_texts();

bool defines(const std::string& ptx, const std::string& kernel);
/// The text that defines `kernel`. Throws std::runtime_error without one.
const std::string& ptx_with(const std::string& kernel);

}  // namespace ringlet::emulated
