#include "ringlet/nn/place.h"

#include <algorithm>

#include "ringlet/nn/name_pattern.h"

namespace ringlet::nn {

void place(Module& module, const std::vector<Place>& places) {
  std::vector<std::vector<Module*>> named(places.size());
  std::vector<std::string> all;
  module.visit([&](const std::string& path, Module& below) {
    if (path.empty()) return;
    all.push_back(path);
    for (std::size_t i = 0; i < places.size(); ++i)
      if (names_layer(places[i].modules, path)) named[i].push_back(&below);
  });
  for (std::size_t i = 0; i < places.size(); ++i)
    if (named[i].empty()) fail_no_match("module", places[i].modules, all);
  for (std::size_t i = 0; i < places.size(); ++i)
    for (Module* below : named[i]) below->to(places[i].device);
}

bool on_several_devices(const Module& module) {
  const std::vector<Parameter> all = module.parameters();
  return std::ranges::any_of(
      all, [&](const Parameter& one) { return one.device() != all.front().device(); });
}

}  // namespace ringlet::nn
