// The PTX files of the library's kernels.
#pragma once

#include <string>

namespace ringlet::emulated {

bool defines(const std::string& ptx, const std::string& kernel);
/// The text of the file of this build that defines `kernel`. Throws std::runtime_error without one.
const std::string& ptx_with(const std::string& kernel);

}  // namespace ringlet::emulated
