// Lesson 3: a training step is forward, backward, step. A small network learns two moons.
#include <doctest/doctest.h>

#include <cmath>
#include <iostream>

#include "ringlet.h"

using namespace ringlet;

namespace {

// A module registers its parts by name; forward says how they are used.
struct Network : nn::Layer<Network> {
  std::shared_ptr<nn::Linear> hidden =
      register_module("hidden", std::make_shared<nn::Linear>(2, 16));
  std::shared_ptr<nn::Linear> output =
      register_module("output", std::make_shared<nn::Linear>(16, 2));

  Variable forward(const Variable& points) {  // (N, 2) -> (N, 2), a score for each moon
    return (*output)(autograd::tanh((*hidden)(points)));
  }
};

// Two half circles that no straight line separates: points (N, 2) and which moon each is on (N).
std::pair<Tensor, Tensor> two_moons(std::int64_t n) {
  std::vector<float> points;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) {
    const double angle = M_PI * static_cast<double>(i / 2) / static_cast<double>(n / 2);
    const bool second = i % 2;
    points.push_back(static_cast<float>(second ? 1 - std::cos(angle) : std::cos(angle)));
    points.push_back(static_cast<float>(second ? 0.5 - std::sin(angle) : std::sin(angle)));
    labels.push_back(second);
  }
  return {tensor(points, {n, 2}), tensor(labels, {n})};
}

}  // namespace

TEST_CASE("03 training step") {
  manual_seed(1);
  Network network;
  for (const auto& [name, parameter] : network.named_parameters())
    std::cout << name << " " << parameter.shape() << "\n";

  const auto [points, labels] = two_moons(200);
  train::AdamW optimizer(network, {.lr = 0.02});
  float first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    const Variable logits = network(Variable(points));
    const Variable loss = autograd::cross_entropy(logits, labels, 200);  // the mean over 200 points
    loss.backward();        // gradients of all parameters
    optimizer.step();       // move them a little against their gradients
    optimizer.zero_grad();  // and forget the gradients
    last = loss.item();
    if (step == 0) first = last;
    if (step % 50 == 0) std::cout << "step " << step << " loss " << last << "\n";
  }
  std::cout << "loss " << first << " -> " << last << "\n";
  CHECK(first > 0.5f);  // ln 2 = 0.69 is guessing
  CHECK(last < 0.05f);

  const Tensor guesses = argmax(network(Variable(points)).tensor(), -1);  // (N), by rows
  const double right = sum(eq(guesses, labels).to(DType::f64)).item<double>();
  std::cout << right / 2 << " % of the points are on the right moon\n";
  CHECK(right >= 198);

  // The plane as the network sees it: 0 and 1 are the points, the shades are its guesses.
  constexpr std::int64_t kRows = 13, kColumns = 49;
  std::vector<float> grid;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    grid.push_back(-1.5f + static_cast<float>(i % kColumns) / 12);
    grid.push_back(1.25f - static_cast<float>(i / kColumns) / 6);
  }
  const Tensor shades = network(Variable(tensor(grid, {kRows * kColumns, 2}))).tensor();
  std::string picture;
  for (const std::int64_t guess : argmax(shades, -1).to_vector<std::int64_t>())
    picture += guess ? ':' : '.';
  for (std::int64_t i = 0; i < points.size(0); ++i) {
    const std::vector<float> point = points[i].to_vector();
    const auto column = std::lround((point[0] + 1.5f) * 12),
               row = std::lround((1.25f - point[1]) * 6);
    picture[static_cast<std::size_t>(row * kColumns + column)] = i % 2 ? '1' : '0';
  }
  for (std::size_t row = 0; row < kRows; ++row)
    std::cout << picture.substr(row * kColumns, kColumns) << "\n";
}
