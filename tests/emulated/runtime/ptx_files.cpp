#include "ptx_files.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace ringlet::emulated {
namespace {

std::vector<std::string> read_files() {
  std::vector<std::string> texts;
  std::istringstream paths(RINGLET_EMULATED_PTX);
  for (std::string path; std::getline(paths, path, ':');) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    texts.push_back(std::move(text).str());
  }
  return texts;
}

}  // namespace

const std::vector<std::string>& ptx_texts() {
  static const std::vector<std::string> texts = read_files();
  return texts;
}

bool defines(const std::string& ptx, const std::string& kernel) {
  return ptx.find(".entry " + kernel + "(") != ptx.npos;
}

const std::string& ptx_with(const std::string& kernel) {
  const std::vector<std::string>& texts = ptx_texts();
  const auto found = std::find_if(texts.begin(), texts.end(),
                                  [&](const std::string& text) { return defines(text, kernel); });
  if (found == texts.end()) throw std::runtime_error("no PTX file of this build defines " + kernel);
  return *found;
}

}  // namespace ringlet::emulated
