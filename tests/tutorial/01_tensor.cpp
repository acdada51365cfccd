// Lesson 1: a tensor is a value: a shape, a dtype, a device, and storage that views share.
#include <doctest/doctest.h>

#include <cstring>
#include <iostream>

#include "ringlet.h"

using namespace ringlet;

TEST_CASE("01 tensor") {
  // Six numbers in two rows. Elements are always contiguous, row after row.
  Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  std::cout << "x = " << x << "\n\n";

  // A view has another shape, a slice fewer rows; both are the same memory.
  Tensor first_row = x[0];
  first_row.fill_(10);
  std::cout << "after x[0].fill_(10): " << x.view({3, 2}) << "\n\n";
  CHECK(x.to_vector() == std::vector<float>{10, 10, 10, 4, 5, 6});
  std::cout << "the memory   ";
  for (const float number : x.to_vector()) std::cout << number << (number < 10 ? "  " : " ");
  for (const auto& [name, view] : {std::pair("x", x), {"x[0]", x[0]}, {"x[1]", x[1]}}) {
    const auto first = static_cast<std::size_t>(view.data<float>() - x.data<float>());
    const auto length = static_cast<std::size_t>(view.numel());
    std::cout << "\n"
              << name << std::string(13 - std::strlen(name) + 3 * first, ' ')
              << std::string(3 * length - 1, '-');
  }
  std::cout << "\n\n";

  // Element-wise operations broadcast: sizes meet from the right, a 1 stretches.
  const Tensor scaled = x * tensor({1.f, 10.f, 100.f});  // (2, 3) * (3)
  std::cout << "x * [1, 10, 100] = " << scaled << "\n\n";
  CHECK(scaled[1].to_vector() == std::vector<float>{4, 50, 600});

  // A transpose is an argument of a product: nothing is copied.
  const Tensor gram = matmul(x, x, {.trans_b = true});  // (2, 3) (2, 3)' -> (2, 2)
  std::cout << "x x' = " << gram << "\n\n";
  CHECK(gram[1][1].item() == 16 + 25 + 36);

  // Every element has a dtype: f32 is a float, bf16 half its memory, with eight bits of precision.
  const Tensor rounded = tensor({3.14159f}).to(DType::bf16);
  std::cout << "pi in bf16 = " << rounded << "\n\n";
  CHECK(rounded.nbytes() == 2);
  CHECK(rounded.item() == 3.140625f);

  // A mistake is an exception that shows both values.
  try {
    static_cast<void>(x + zeros({4}));
    FAIL("adding (4) to (2, 3) must not work");
  } catch (const Error& error) {
    std::cout << "a mistake says: " << error.what() << "\n";
  }
}
