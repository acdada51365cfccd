// The sizes of a tensor, outermost first; at most eight dimensions, stored inline.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <vector>

namespace ringlet {

class Shape {
 public:
  static constexpr int kMaxDim = 8;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes);
  Shape(const std::vector<std::int64_t>& sizes) : Shape(std::span(sizes)) {}

  int dim() const { return dim_; }
  std::int64_t numel() const;
  /// Size of dimension `i`; negative counts from the end. Throws when out of range.
  std::int64_t operator[](int i) const { return sizes_[index(i)]; }
  std::int64_t& operator[](int i) { return sizes_[index(i)]; }
  /// `i` in 0..dim-1, negative allowed; throws when out of range.
  int index(int i) const;

  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + dim_; }

  Shape without(int i) const;                      // dimension i removed
  Shape with(int i, std::int64_t size) const;      // dimension i replaced
  Shape inserted(int i, std::int64_t size) const;  // a new dimension before i

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxDim> sizes_{};
  int dim_ = 0;
};

/// NumPy's broadcasting of two shapes; Error, in the name of `op`, if they are not compatible.
Shape broadcast(const Shape& a, const Shape& b, const char* op = "broadcast");

std::ostream& operator<<(std::ostream& out, const Shape& shape);  // "(2, 3)"

}  // namespace ringlet
