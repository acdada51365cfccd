#include "ringlet/train/parallel/unit_layout.h"

#include <algorithm>

namespace ringlet::train {
namespace {

std::int64_t size_of(DType dtype) { return static_cast<std::int64_t>(itemsize(dtype)); }

}  // namespace

UnitLayout::UnitLayout(const nn::Unit& unit, const comm::Pieces& pieces, const Rounded& rounded)
    : pieces_(pieces) {
  for (const nn::PlacedParameter& slot : unit.parameters) {
    const bool round = rounded.contains(slot.parameter.state().get());
    rounded_ = rounded_ || round;
    const DType dtype = round ? DType::bf16 : slot.parameter.dtype();
    const std::int64_t size = size_of(dtype), start = (nbytes_ + size - 1) / size * size;
    places_.push_back(
        {slot.offset - unit.begin, slot.numel(), start, slot.parameter.shape(), dtype});
    nbytes_ = start + slot.numel() * size;
  }
  for (const comm::Piece& piece : pieces) {
    const std::int64_t start = byte_of(piece.offset);
    bytes_.push_back({start, byte_of(piece.offset + piece.count) - start});
  }
}

// A gap in front of a parameter belongs to the piece that ends there.
std::int64_t UnitLayout::byte_of(std::int64_t element) const {
  for (const Place& place : places_)
    if (element < place.begin + place.numel)
      return place.start + (element - place.begin) * size_of(place.dtype);
  return nbytes_;
}

Tensor UnitLayout::part(const Tensor& whole, const Place& place, std::int64_t begin,
                        std::int64_t end) const {
  const std::int64_t start = place.start + begin * size_of(place.dtype);
  return Tensor(whole.storage(), whole.storage_offset() + static_cast<std::size_t>(start),
                {end - begin}, place.dtype);
}

Tensor UnitLayout::parameter(const Tensor& whole, std::size_t i) const {
  const Place& place = places_[i];
  return part(whole, place, 0, place.numel).view(place.shape);
}

Tensor UnitLayout::piece(const Tensor& whole, const Tensor& elements, std::size_t r) const {
  const auto [start, nbytes] = bytes_[r];
  if (!rounded_) return Tensor(elements.storage(), elements.storage_offset(), {nbytes}, DType::u8);
  const comm::Piece& mine = pieces_[r];
  for (const Place& place : places_) {
    const std::int64_t begin = std::max(place.begin, mine.offset);
    const std::int64_t end = std::min(place.begin + place.numel, mine.offset + mine.count);
    if (begin >= end) continue;
    Tensor out = part(whole, place, begin - place.begin, end - place.begin);
    out.copy_(elements.slice(begin - mine.offset, end - mine.offset));
  }
  return whole.slice(start, start + nbytes);
}

}  // namespace ringlet::train
