// Which kernel is launched, and from where.
#pragma once

namespace ringlet::cuda {

/// A kernel's name, and of itself the file and the line of whoever wrote it. Of the builtins, since
/// clang 14 has no std::source_location.
struct LaunchSite {
  // Not explicit, so that a launch is told a name and no more.
  LaunchSite(const char* kernel, const char* in_file = __builtin_FILE(),
             int at_line = __builtin_LINE())
      : name(kernel), file(in_file), line(at_line) {}

  const char* name;
  const char* file;
  int line;
};

}  // namespace ringlet::cuda
