// How a sharded unit's parameters lie while the unit is whole.
#pragma once

#include <set>
#include <vector>

#include "ringlet/comm/pieces.h"
#include "ringlet/nn/arena.h"

namespace ringlet::train {

/// End to end in bytes, each parameter from a multiple of its element on.
class UnitLayout {
 public:
  using Rounded = std::set<const autograd::VariableState*>;
  /// `pieces` of the unit's elements, by rank. Parameters in `rounded` lie there as bf16, all
  /// others as they are kept.
  UnitLayout(const nn::Unit& unit, const comm::Pieces& pieces, const Rounded& rounded);

  std::int64_t nbytes() const { return nbytes_; }
  /// The same pieces, in bytes.
  const comm::Pieces& pieces() const { return bytes_; }
  /// Parameter i of the unit in `whole` (nbytes) u8.
  Tensor parameter(const Tensor& whole, std::size_t i) const;
  /// Rank r's piece of `whole`, out of its elements (count).
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
