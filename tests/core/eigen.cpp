#include "ringlet/core/tensor/eigen.h"

#include <doctest/doctest.h>

#include "../device.h"
#include "ringlet/core/ops/matmul.h"

using namespace ringlet;

TEST_CASE_FIXTURE(OnCpu, "an Eigen map has the tensor's memory and its rows") {
  const Tensor x = arange(0, 24, 1, DType::f32).view({2, 3, 4});
  const auto map = eigen::map<float>(x);
  CHECK(map.data() == x.data<float>());
  CHECK(map.rows() == 6);
  CHECK(map(5, 1) == 21);
  CHECK(eigen::map<float>(x.view({24})).rows() == 1);
  CHECK(eigen::map<float>(empty({3, 0})).size() == 0);
}

TEST_CASE_FIXTURE(OnCpu, "a map for writing increments the version") {
  Tensor x = zeros({2, 3}, DType::f64);
  const std::uint64_t before = x.version();
  CHECK(eigen::map<double>(x).isZero());
  CHECK(x.version() == before);
  eigen::mutable_map<double>(x).row(1).setConstant(2);
  CHECK(x.version() > before);
  CHECK(x.to_vector<double>() == std::vector<double>{0, 0, 0, 2, 2, 2});
}

TEST_CASE_FIXTURE(OnCpu, "a tensor of an Eigen matrix owns its memory") {
  eigen::Matrix<float> matrix = eigen::Matrix<float>::Identity(3, 2);
  const float* const data = matrix.data();
  const Tensor x = eigen::tensor_of(std::move(matrix));
  CHECK(x.data<float>() == data);
  CHECK(x.shape() == Shape{3, 2});
  const Tensor row = tensor<float>({1, 2, 3}).view({1, 3});
  const eigen::Matrix<float> product = eigen::map<float>(row) * eigen::map<float>(x);
  CHECK(matmul(row, x).to_vector() == eigen::tensor_of(product).to_vector());
}

TEST_CASE_FIXTURE(OnCpu, "another dtype is refused by Eigen's maps") {
  const Tensor x = zeros({2}, DType::i32);
  CHECK_THROWS_AS(eigen::map<float>(x), Error);
  CHECK_THROWS_WITH_AS(eigen::map<float>(Tensor()), "[eigen] needs a tensor on a CPU", Error);
}
