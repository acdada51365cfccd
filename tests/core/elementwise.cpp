#include "ringlet/core/ops/elementwise.h"

#include <cmath>

#include "../oracle.h"

using namespace ringlet;

TEST_CASE("comparisons equal PyTorch") {
  const Oracle ops("ops");
  const std::pair<const char*, BinaryOp> comparisons[] = {
      {"eq", BinaryOp::eq}, {"ne", BinaryOp::ne}, {"lt", BinaryOp::lt},
      {"le", BinaryOp::le}, {"gt", BinaryOp::gt}, {"ge", BinaryOp::ge}};
  for (const auto& [name, op] : comparisons)
    for (const std::string& c : ops.cases(name)) {
      const Tensor y = binary(op, ops.tensor(c + "/a"), ops.tensor(c + "/b"));
      CHECK(y.dtype() == DType::u8);
      check_close(y, ops.tensor(c + "/y"), 0, c);
    }
}

TEST_CASE("bf16 computes in f32 and rounds once") {
  const Tensor a = tensor({1.f, 3.f, -2.5f}).to(DType::bf16), b = tensor({0.0078125f, 7.f, 0.1f});
  const Tensor half = b.to(DType::bf16);
  for (BinaryOp op : {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div}) {
    const Tensor wide = binary(op, a.to(DType::f32), half.to(DType::f32));
    CHECK(binary(op, a, half).to_vector() == wide.to(DType::bf16).to_vector());
  }
}

TEST_CASE("every length gives each element the same bits") {
  std::vector<float> values(131);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i)) + 1.5f;
  const Tensor x = tensor(values, {131});
  const std::vector<float> whole = div(x, mul(x, add(x, x))).to_vector();
  for (std::int64_t n = 0; n <= 131; ++n) {
    const Tensor head = x.slice(0, n);
    const std::vector<float> part = div(head, mul(head, add(head, head))).to_vector();
    CHECK(part == std::vector<float>(whole.begin(), whole.begin() + n));
  }
}

TEST_CASE("operators are the functions, a number an operand of the tensor's dtype") {
  const Tensor a = tensor({1.f, 3.f, -2.5f}), b = tensor({0.5f, 7.f, 0.1f});
  CHECK((a + b).to_vector() == add(a, b).to_vector());
  CHECK((a - b).to_vector() == sub(a, b).to_vector());
  CHECK((a * b).to_vector() == mul(a, b).to_vector());
  CHECK((a / b).to_vector() == div(a, b).to_vector());
  CHECK((-a).to_vector() == neg(a).to_vector());
  const Tensor i = tensor<std::int32_t>({1, -2});
  CHECK((2 * i - 1).to_vector<int>() == std::vector<int>{1, -5});
  CHECK_THROWS_WITH_AS(i + 0.5, "[add] 0.5 is no i32", Error);
  CHECK_THROWS_WITH_AS(i.to(DType::u8) * 256, "[mul] 256 is no u8", Error);
  CHECK_THROWS_AS(i * 0x1p31, Error);
  CHECK_THROWS_AS(i / 2, Error);
}

TEST_CASE("operands must fit") {
  CHECK_THROWS_WITH(add(zeros({2, 3}), zeros({2})),
                    "[add] shapes (2, 3) and (2,) do not broadcast");
  CHECK_THROWS_AS(add(zeros({2}), zeros({2}, DType::f64)), Error);
  CHECK_THROWS_AS(exp(zeros({2}, DType::i32)), Error);
}

TEST_CASE("axpby reads out unless beta is 0, however small") {
  Tensor out = full({3}, NAN);
  const Tensor x = tensor({1.f, 2.f, 3.f});
  axpby(out, 1, x, 1e-60);  // 0 as a float
  for (const float value : out.to_vector()) CHECK(std::isnan(value));
  axpby(out, 2, x, 0);
  CHECK(out.to_vector() == std::vector<float>{2, 4, 6});
  axpby(out, 1, x, 1);
  CHECK(out.to_vector() == std::vector<float>{3, 6, 9});
}
