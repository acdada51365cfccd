// A world of ranks as a grid of three axes.
#pragma once

#include <string>

#include "ringlet/comm/group.h"

namespace ringlet::train {

/// Rank r is place r % tensor of the axis `tensor`, r / tensor % data of `data`, and
/// r / (tensor * data) of `pipe`.
struct MeshShape {
  int data = 0;    // ranks with different rows; 0: all that the other axes leave
  int pipe = 1;    // ranks with different layers
  int tensor = 1;  // ranks with different slices of the same layers
  /// The shape with its `data`. InputError unless it has so many ranks.
  MeshShape over(int ranks) const;
  int data_place(int rank) const { return rank / tensor % data; }
  int tensor_place(int rank) const { return rank % tensor; }
  int pipe_place(int rank) const { return rank / (tensor * data); }
};

/// "data=2,pipe=4,tensor=2", each axis at most once; else InputError.
MeshShape parse_mesh(const std::string& text);

/// The world, and this rank's group along each axis.
struct Mesh {
  comm::Group world, data, pipe, tensor;
  comm::Group same_slices;  // along `data` and `pipe`: ranks that may run different batches
  comm::Group same_rows;    // along `pipe` and `tensor`
};

/// Every rank of `world` calls it. InputError as MeshShape::over.
Mesh make_mesh(const comm::Group& world, const MeshShape& shape);

}  // namespace ringlet::train
