// Printing: nested brackets, six significant digits for floating types, long dimensions cut in the
// middle.
#include <ostream>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet {
namespace {

constexpr std::int64_t kEdge = 3;  // rows printed at each end of a dimension that is cut

template <class T>
struct Printer {
  std::ostream& out;
  const Shape& shape;
  std::vector<T> values;  // row-major
  bool cut;

  void print(int axis, std::int64_t offset, std::int64_t stride) {
    if (axis == shape.dim()) {
      out << values[static_cast<std::size_t>(offset)];
      return;
    }
    const std::int64_t size = shape[axis];
    const std::int64_t inner = size ? stride / size : 0;
    const bool last = axis + 1 == shape.dim();
    out << '[';
    for (std::int64_t i = 0; i < size; ++i) {
      if (cut && size > 2 * kEdge && i == kEdge) {
        out << (last ? ", ..." : ",\n ...");
        i = size - kEdge;
      }
      if (i) out << (last ? ", " : ",\n ");
      print(axis + 1, offset + i * inner, inner);
    }
    out << ']';
  }
};

template <class T>
void print(std::ostream& out, const Tensor& tensor) {
  Printer<T>{out, tensor.shape(), tensor.to_vector<T>(), tensor.numel() > 1000}.print(
      0, 0, tensor.numel());
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "tensor(undefined)";
  const auto precision = out.precision(6);
  out << "tensor(";
  if (is_floating(tensor.dtype())) {
    print<double>(out, tensor);
  } else {
    print<std::int64_t>(out, tensor);
  }
  out.precision(precision);
  return out << ", " << tensor.dtype() << ' ' << tensor.shape() << ' ' << tensor.device() << ')';
}

}  // namespace ringlet
