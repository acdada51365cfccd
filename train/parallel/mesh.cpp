#include "ringlet/train/parallel/mesh.h"

#include <algorithm>
#include <sstream>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/number.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::train {
namespace {

/// The one with this rank of the groups of `size` ranks, which are `stride` apart.
comm::Group along(const comm::Group& world, int size, int stride) {
  if (size == world.size()) return world;
  if (size == 1) return {};
  comm::Group mine;
  for (int first = 0; first < world.size(); ++first) {
    if (first / stride % size != 0) continue;
    std::vector<int> ranks;
    for (int i = 0; i < size; ++i) ranks.push_back(first + i * stride);
    const comm::Group group = world.subgroup(ranks);
    if (group.size() > 1) mine = group;
  }
  return mine;
}

}  // namespace

MeshShape MeshShape::over(int ranks) const {
  const int others = pipe * tensor;
  const MeshShape whole{data == 0 ? std::max(1, ranks / others) : data, pipe, tensor};
  if (whole.data * others != ranks)
    fail_input("mesh data=", whole.data, ",pipe=", pipe, ",tensor=", tensor, ": expected ",
               whole.data * others, " ranks, found ", ranks);
  return whole;
}

MeshShape parse_mesh(const std::string& text) {
  MeshShape mesh{0, 0, 0};
  std::istringstream axes(text);
  for (std::string axis; std::getline(axes, axis, ',');) {
    const std::size_t equals = std::min(axis.find('='), axis.size());
    const std::string name = axis.substr(0, equals);
    int* const size = name == "data"     ? &mesh.data
                      : name == "pipe"   ? &mesh.pipe
                      : name == "tensor" ? &mesh.tensor
                                         : nullptr;
    const auto value = parse_number<int>(axis.substr(std::min(equals + 1, axis.size())));
    if (!size || *size != 0 || !value || *value < 1)
      fail_input("expected axes such as data=2,pipe=4,tensor=2, found ", quote(text));
    *size = *value;
  }
  mesh.pipe = std::max(mesh.pipe, 1);
  mesh.tensor = std::max(mesh.tensor, 1);
  return mesh;
}

Mesh make_mesh(const comm::Group& world, const MeshShape& of) {
  const auto [data, pipe, tensor] = of.over(world.size());
  return {world, along(world, data, tensor), along(world, pipe, tensor * data),
          along(world, tensor, 1), along(world, data * pipe, tensor)};
}

}  // namespace ringlet::train
