#include "ringlet/core/tensor/shape.h"

#include <algorithm>
#include <ostream>

#include "ringlet/core/base/error.h"

namespace ringlet {

Shape::Shape(std::span<const std::int64_t> sizes) : dim_(static_cast<int>(sizes.size())) {
  RINGLET_CHECK(sizes.size() <= kMaxDim, "a tensor has at most ", kMaxDim, " dimensions, not ",
                sizes.size());
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (std::int64_t size : *this)
    RINGLET_CHECK(!__builtin_mul_overflow(n, size, &n), "a tensor of shape ", *this,
                  " has too many elements");
  return n;
}

int Shape::index(int i) const {
  const int wrapped = i < 0 ? i + dim_ : i;
  RINGLET_CHECK(wrapped >= 0 && wrapped < dim_, "dimension ", i, " of a tensor with ", dim_,
                " dimensions");
  return wrapped;
}

Shape Shape::without(int i) const {
  Shape out = *this;
  std::copy(sizes_.begin() + index(i) + 1, sizes_.begin() + dim_, out.sizes_.begin() + index(i));
  out.sizes_[--out.dim_] = 0;
  return out;
}

Shape Shape::with(int i, std::int64_t size) const {
  Shape out = *this;
  out[i] = size;
  return out;
}

Shape Shape::inserted(int i, std::int64_t size) const {
  RINGLET_CHECK(dim_ < kMaxDim && i >= 0 && i <= dim_, "cannot insert dimension ", i, " into ",
                *this);
  Shape out = *this;
  std::copy_backward(sizes_.begin() + i, sizes_.begin() + dim_, out.sizes_.begin() + dim_ + 1);
  out.sizes_[i] = size;
  ++out.dim_;
  return out;
}

bool operator==(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

Shape broadcast(const Shape& a, const Shape& b, const char* op) {
  const Shape& longer = a.dim() >= b.dim() ? a : b;
  const Shape& shorter = a.dim() >= b.dim() ? b : a;
  Shape out = longer;
  for (int i = 1; i <= shorter.dim(); ++i) {
    const std::int64_t x = longer[-i], y = shorter[-i];
    RINGLET_CHECK(x == y || x == 1 || y == 1, "[", op, "] shapes ", a, " and ", b,
                  " do not broadcast");
    out[-i] = x == 1 ? y : x;
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '(';
  for (int i = 0; i < shape.dim(); ++i) out << (i ? ", " : "") << shape[i];
  return out << (shape.dim() == 1 ? ",)" : ")");
}

}  // namespace ringlet
