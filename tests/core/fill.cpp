#include "ringlet/core/tensor/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace ringlet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
std::vector<T> converted(const std::vector<double>& values, DType from) {
  const auto n = static_cast<std::int64_t>(values.size());
  return tensor(values, {n}).to(from).to(dtype_of<T>()).template to_vector<T>();
}

}  // namespace

TEST_CASE("floating to integer truncates towards zero") {
  for (const DType from : {DType::f64, DType::f32, DType::bf16, DType::f16})
    CHECK(converted<std::int32_t>({2.75, -2.75, 0.5, -0.5}, from) ==
          std::vector<std::int32_t>{2, -2, 0, 0});
}

TEST_CASE("a value beyond an integer's range becomes the nearest in it, and NaN becomes 0") {
  const std::vector<double> values{1e30, -1e30, kInfinity, -kInfinity, kNaN};
  for (const DType from : {DType::f64, DType::f32, DType::bf16}) {
    CAPTURE(from);
    const auto check = [&]<class T>() {
      using Limits = std::numeric_limits<T>;
      CHECK(converted<T>(values, from) ==
            std::vector<T>{Limits::max(), Limits::min(), Limits::max(), Limits::min(), 0});
    };
    check.template operator()<std::int32_t>();
    check.template operator()<std::int64_t>();
    check.template operator()<std::uint8_t>();
  }
  CHECK(converted<std::uint8_t>({-1, 255, 256}, DType::f64) ==
        std::vector<std::uint8_t>{0, 255, 255});
  CHECK(full({1}, -1, DType::u8).item<std::uint8_t>() == 0);
}

TEST_CASE("the value of a fill keeps its sign, also zero") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(dtype);
    CHECK(std::signbit(full({3}, -0.0, dtype).to_vector<double>()[2]));
    CHECK(!std::signbit(full({3}, 0.0, dtype).to_vector<double>()[2]));
  }
}

}  // namespace ringlet
