// The name of a launched kernel and the line of the launch.
#pragma once

namespace ringlet::cuda {

/// A kernel's name, with the file and the line of the caller. By builtins, because clang 14 has no
/// std::source_location.
struct LaunchSite {
  // Not explicit, so that a caller passes just a name.
  LaunchSite(const char* kernel, const char* in_file = __builtin_FILE(),
             int at_line = __builtin_LINE())
      : name(kernel), file(in_file), line(at_line) {}

  const char* name;
  const char* file;
  int line;
};

}  // namespace ringlet::cuda
