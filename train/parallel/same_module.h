// Whether all ranks hold the same module: equal names, shapes and dtypes. Its buffers follow those
// of another rank or device.
#pragma once

#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/core/base/error.h"
#include "ringlet/nn/module.h"

namespace ringlet::train {

/// One line per parameter and buffer.
inline std::string describe_module(const nn::Module& module) {
  std::string lines;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    lines += str("'", name, "' ", tensor.dtype(), " ", tensor.shape(), '\n');
  };
  for (const nn::NamedParameter& named : module.named_parameters())
    add(named.name, named.parameter.tensor());
  for (const auto& [name, buffer] : module.named_buffers()) add(name, buffer);
  return lines;
}

/// Collective. Error that names the first difference if the ranks' modules differ.
inline void check_same_module(std::string_view strategy, const nn::Module& module,
                              const comm::Group& group) {
  const auto next = [](std::istringstream& lines) {
    std::string line;
    return std::getline(lines, line) ? line : "nothing";
  };
  const std::vector<std::string> all = group.all_gather_bytes(describe_module(module));
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    std::istringstream lines(all[0]), other_lines(all[r]);
    std::string first = next(lines), other = next(other_lines);
    std::size_t i = 0;
    for (; first == other; ++i) first = next(lines), other = next(other_lines);
    fail("[", strategy, "] the module differs between ranks: as parameter ", i, " rank 0 has ",
         first, ", rank ", r, " has ", other);
  }
}

/// A buffer that has the value already is not written: a graph may hold it.
inline void update_buffer(Tensor buffer, const Tensor& value) {
  const bool here = buffer.device().type == DeviceType::cpu && value.device() == buffer.device();
  if (here && std::memcmp(buffer.bytes(), value.bytes(), buffer.nbytes()) == 0) return;
  buffer.copy_(value);
}

}  // namespace ringlet::train
