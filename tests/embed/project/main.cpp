// Our own op gradchecked, then our own module trained on a wave: alone, and on two ranks.
#include <iostream>

#include "core/tensor/tensor.h"
#include "nn/module.h"
#include "snake.h"
#ifdef LAB_EIGEN
#include "ringlet/core/tensor/eigen.h"
#endif

Variable column(const std::vector<float>& values) {  // (N, 1)
  return Variable(ringlet::tensor(values, {static_cast<std::int64_t>(values.size()), 1}));
}

Variable squared_error(Wave& model, const Variable& input, const Variable& target) {
  return ag::sum(ag::square(model(input) - target));
}

// Whether the error of the op's gradient is within its bound.
bool gradient_is_right() {
  const auto f64 = ringlet::DType::f64;
  const Variable x(ringlet::normal({5, 3}, 0, 1, f64), true);
  const Variable a(ringlet::uniform({3}, 0.5, 2, f64), true);
  const auto check = ag::gradcheck([](const auto& v) { return snake(v[0], v[1]); }, {x, a});
  std::cout << "gradient off by " << check.error << ", allowed " << check.allowed << "\n";
  return check.ok();
}

// How much of the wave's energy the model's output lacks. With Eigen, it is computed on the memory
// of both tensors.
float missing_energy(const ringlet::Tensor& output, const ringlet::Tensor& wave) {
#ifdef LAB_EIGEN
  const auto have = ringlet::eigen::map<float>(output), want = ringlet::eigen::map<float>(wave);
  return (have - want).squaredNorm() / want.squaredNorm();
#else
  std::cout << "skipped without Eigen: ringlet/core/tensor/eigen.h\n";
  const auto energy = [](const ringlet::Tensor& x) {
    return ringlet::sum(ringlet::square(x)).item();
  };
  return energy(output - wave) / energy(wave);
#endif
}

int train_alone(const lab::Tensor& places, const lab::Tensor& wave) {
  const Variable input = column(places.values), target = column(wave.values);
  Wave model(16);
  ringlet::train::AdamW optimizer(model, {.lr = 0.01});
  float first = 0, last = 0;
  for (int step = 0; step < 500; ++step) {
    const Variable loss = squared_error(model, input, target) * (1.0 / input.numel());
    last = loss.item();
    if (step == 0) first = last;
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  const float missing = missing_energy(model(input).tensor(), target.tensor());
  std::cout << "energy that the output lacks: " << missing << "\n";
  if (!(missing < 0.1f)) return 1;
  return lab::Module{"wave"}.report(first, last);
}

// All parameters after ten steps of a module; each rank holds half of it, or the whole.
template <class Strategy>
std::vector<float> train_on_two_ranks(const lab::Tensor& places, const lab::Tensor& wave) {
  std::vector<float> trained;
  const auto rank_main = [&](const ringlet::comm::Group& group) {
    ringlet::manual_seed(1);
    Wave model(4096);
    const Strategy strategy(model, group);
    ringlet::train::AdamW optimizer(model, {.lr = 0.01, .max_grad_norm = 1});
    std::vector<float> mine[2];  // every other sample
    for (auto i = static_cast<std::size_t>(group.rank()); i < wave.values.size(); i += 2) {
      mine[0].push_back(places.values[i]);
      mine[1].push_back(wave.values[i]);
    }
    for (int step = 0; step < 10; ++step) {
      squared_error(model, column(mine[0]), column(mine[1])).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    ringlet::nn::WholeParameters whole(model);
    for (const ringlet::nn::Parameter& parameter : model.parameters()) {
      const std::vector<float> values = whole(parameter).to_vector();
      if (group.rank() == 0) trained.insert(trained.end(), values.begin(), values.end());
    }
  };
  ringlet::comm::launch(rank_main, 2, {.ranks = ringlet::comm::Ranks::threads});
  return trained;
}

int main() {
  if (!gradient_is_right()) return 1;
  lab::Tensor places, wave;
  lab::sample(128, places, wave);
  if (const int failed = train_alone(places, wave)) return failed;
  const auto whole = train_on_two_ranks<ringlet::train::DistributedDataParallel>(places, wave);
  const auto sharded = train_on_two_ranks<ringlet::train::FullySharded>(places, wave);
  const bool same = !whole.empty() && whole == sharded;
  std::cout << "FSDP and DDP on two ranks: " << (same ? "the same bits" : "different bits") << "\n";
  return same ? 0 : 1;
}
