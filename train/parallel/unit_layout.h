// The memory layout of a sharded unit's parameters while the unit is whole.
#pragma once

#include <set>
#include <vector>

#include "ringlet/comm/types.h"
#include "ringlet/nn/arena.h"

namespace ringlet::train {

/// Bytes of all parameters in order; each starts at a multiple of its element size.
class UnitLayout {
 public:
  using Rounded = std::set<const autograd::VariableState*>;
  /// `pieces` of the unit's elements, by rank. Parameters in `rounded` are stored as bf16, the rest
  /// in their own dtype.
  UnitLayout(const nn::Unit& unit, const comm::Pieces& pieces, const Rounded& rounded);

  std::int64_t nbytes() const { return nbytes_; }
  /// The same pieces, in bytes.
  const comm::Pieces& pieces() const { return bytes_; }
  /// Parameter i of the unit in `whole` (nbytes) u8.
  Tensor parameter(const Tensor& whole, std::size_t i) const;
  /// Rank r's piece in bytes, from its elements (count); in `whole` if parameters are rounded.
  Tensor piece(const Tensor& whole, const Tensor& elements, std::size_t r) const;

 private:
  struct Place {
    std::int64_t begin, numel;  // elements of the unit
    std::int64_t start;         // bytes
    Shape shape;
    DType dtype;
  };
  std::int64_t byte_of(std::int64_t element) const;
  Tensor part(const Tensor& whole, const Place& place, std::int64_t begin, std::int64_t end) const;

  comm::Pieces pieces_, bytes_;
  std::vector<Place> places_;
  std::int64_t nbytes_ = 0;
  bool rounded_ = false;  // some parameter is
};

}  // namespace ringlet::train
