#include "registers.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <unordered_map>

namespace ringlet::emulated {
namespace {

using RegisterCounts = std::unordered_map<std::string, int>;

// "ptxas info : Compiling entry function 'NAME' for 'sm_90a'", later "ptxas info : Used 32
// registers".
void read_log(const std::string& path, RegisterCounts& to) {
  std::ifstream log(path);
  bool is_hopper = false;
  for (std::string line, kernel; std::getline(log, line);) {
    const auto used = line.find("Used ");
    if (const auto name = line.find("entry function '"); name != line.npos) {
      const auto begin = name + 16, end = line.find('\'', begin);
      kernel = line.substr(begin, end - begin);
      is_hopper = line.find("sm_90", end) != line.npos;
    } else if (used != line.npos && is_hopper && !kernel.empty()) {
      to[kernel] = std::atoi(line.c_str() + used + 5);
      kernel.clear();
    }
  }
}

RegisterCounts read_logs() {
  RegisterCounts found;
  std::istringstream paths(RINGLET_EMULATED_PTXAS);
  for (std::string path; std::getline(paths, path, ':');) read_log(path, found);
  return found;
}

}  // namespace

int registers_of(const std::string& kernel) {
  static const RegisterCounts counts = read_logs();
  const auto found = counts.find(kernel);
  return found == counts.end() ? 0 : found->second;
}

}  // namespace ringlet::emulated
