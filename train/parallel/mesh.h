// A world of ranks as a grid of two axes.
#pragma once

#include <string>

#include "ringlet/comm/group.h"

namespace ringlet::train {

/// Rank r is place r / data of the axis `pipe` and place r % data of the axis `data`.
struct MeshShape {
  int data = 0;  // ranks with different rows; 0: all that the other axis leaves
  int pipe = 1;  // ranks with different layers
  /// The shape with its `data`. InputError unless it has so many ranks.
  MeshShape over(int ranks) const;
};

/// "data=2,pipe=4", each axis at most once; else InputError.
MeshShape parse_mesh(const std::string& text);

/// The world, and this rank's group along each axis.
struct Mesh {
  comm::Group world, data, pipe;
};

/// Every rank of `world` calls it. InputError as MeshShape::over.
Mesh make_mesh(const comm::Group& world, const MeshShape& shape);

}  // namespace ringlet::train
