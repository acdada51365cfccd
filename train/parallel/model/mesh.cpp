#include "ringlet/train/parallel/model/mesh.h"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::train {
namespace {

/// This rank's group of the ranks with the same color.
comm::Group split(const comm::Group& world, const std::function<int(int)>& color) {
  std::map<int, std::vector<int>> groups;
  for (int rank = 0; rank < world.size(); ++rank) groups[color(rank)].push_back(rank);
  if (groups.size() == 1) return world;
  comm::Group mine;
  for (const auto& [its_color, ranks] : groups) {
    if (ranks.size() == 1) continue;  // a group of one
    const comm::Group group = world.subgroup(ranks);
    if (its_color == color(world.rank())) mine = group;
  }
  return mine;
}

}  // namespace

MeshShape MeshShape::over(int ranks) const {
  RINGLET_CHECK(data >= 0 && pipe >= 1 && tensor >= 1, "[mesh] data=", data, ",pipe=", pipe,
                ",tensor=", tensor);
  const std::int64_t others = std::int64_t{pipe} * tensor;
  const bool fits = data == 0 ? ranks % others == 0 : others * data == ranks;
  if (!fits)
    fail_input("expected ", data == 0 ? "a multiple of " : "", data == 0 ? others : others * data,
               " ranks, found ", ranks);
  return {static_cast<int>(ranks / others), pipe, tensor};
}

MeshShape parse_mesh(const std::string& text) {
  MeshShape mesh{0, 0, 0};
  std::istringstream axes(text + ',');  // a final comma without an axis is wrong
  for (std::string axis; std::getline(axes, axis, ',');) {
    const std::size_t equals = std::min(axis.find('='), axis.size());
    const std::string name = axis.substr(0, equals);
    int* const size = name == "data"     ? &mesh.data
                      : name == "pipe"   ? &mesh.pipe
                      : name == "tensor" ? &mesh.tensor
                                         : nullptr;
    const auto value = parse_number<int>(axis.substr(std::min(equals + 1, axis.size())));
    if (!size || *size != 0 || !value || *value < 1 || *value > 1024)
      fail_input("expected axes such as data=2,pipe=4,tensor=2, each of 1 to 1024, found ",
                 quote(text));
    *size = *value;
  }
  mesh.pipe = std::max(mesh.pipe, 1);
  mesh.tensor = std::max(mesh.tensor, 1);
  return mesh;
}

Mesh make_mesh(const comm::Group& world, const MeshShape& of) {
  const MeshShape shape = of.over(world.size());
  const int tensor = shape.tensor, stage = shape.data * tensor;  // ranks of a stage
  const auto along = [&](const std::function<int(int)>& color) { return split(world, color); };
  return {world,
          along([=](int rank) { return rank / stage * tensor + rank % tensor; }),
          along([=](int rank) { return rank % stage; }),
          along([=](int rank) { return rank / tensor; }),
          along([=](int rank) { return rank % tensor; }),
          along([=](int rank) { return rank % stage / tensor; })};
}

}  // namespace ringlet::train
