// The driver's release, "580.95.05", from Linux's information on the kernel module. Needs no
// toolkit.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace ringlet::cuda {

/// The release in the first line of /proc/driver/nvidia/version: the first word of digits and dots
/// that has both. Empty if there is none. The line names the architecture, too:
/// "... Kernel Module for x86_64  580.95.05  Release Build ...".
inline std::string release_in(std::string_view line) {
  const auto in_release = [](char c) {
    return c == '.' || std::isdigit(static_cast<unsigned char>(c));
  };
  while (!line.empty()) {
    const std::size_t end = std::min(line.find_first_of(" \t\n"), line.size());
    const std::string_view word = line.substr(0, end);
    if (word.size() > 1 && std::all_of(word.begin(), word.end(), in_release) &&
        word.find('.') != word.npos && word.front() != '.')
      return std::string(word);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return "";
}

}  // namespace ringlet::cuda
