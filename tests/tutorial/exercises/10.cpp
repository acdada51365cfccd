// Exercises of lesson 10: the buckets of DDP.
#include <algorithm>

#include "ringlet.h"

using namespace ringlet;

// 1. One message for several gradients: all their elements in one dimension.
Tensor flattened(const std::vector<Tensor>& gradients) {
  // gap: view({-1}) has one dimension; concat(parts, 0) makes them one.
  std::vector<Tensor> parts;
  for (const Tensor& gradient : gradients) parts.push_back(gradient.view({-1}));
  return concat(parts, 0);
  // end: return gradients[0];
}

// 2. And back: copies the elements of `flat` into the gradients. Their shapes stay.
void unflatten(const Tensor& flat, std::vector<Tensor>& gradients) {
  // gap: copy_ of flat.slice(begin, end) for each; it takes any shape of as many elements.
  std::int64_t begin = 0;
  for (Tensor& gradient : gradients) {
    gradient.copy_(flat.slice(begin, begin + gradient.numel()));
    begin += gradient.numel();
  }
  // end: static_cast<void>(flat.numel() + gradients[0].numel());
}

// 3. The time at which the last sum of a step ends. Backward computes the gradients of bucket after
// bucket: bucket i takes `backward` = times[i].first. Its sum takes times[i].second; it starts when
// the gradients are there and the sum before has ended. Backward does not wait for sums.
double end_of_step(const std::vector<std::pair<double, double>>& times) {
  // gap: two clocks, of backward and of the network.
  double computed = 0, summed = 0;
  for (const auto& [backward, sum] : times) {
    computed += backward;
    summed = std::max(computed, summed) + sum;
  }
  return summed;
  // end: return static_cast<double>(times.size());
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "one message") {
  expect("of (2, 2) and (3)",
         flattened({tensor<float>({1, 2, 3, 4}, {2, 2}), tensor<float>({5, 6, 7})}),
         tensor<float>({1, 2, 3, 4, 5, 6, 7}), "seven elements in one dimension, in this order");
}

EXERCISE(2, "and back") {
  std::vector<Tensor> gradients{zeros({2, 2}), zeros({1}), zeros({3})};
  unflatten(tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}), gradients);
  expect("the first", gradients[0], tensor<float>({1, 2, 3, 4}, {2, 2}), "elements 0 to 3");
  expect("the second", gradients[1], tensor<float>({5}), "it begins where the first ends");
  expect("the third", gradients[2], tensor<float>({6, 7, 8}), "it begins behind all before it");
}

EXERCISE(3, "the end of a step") {
  expect("one bucket of 0.25 and 0.5", end_of_step({{0.25, 0.5}}), 0.75, "both begin at 0");
  expect("one bucket of 4 and 3", end_of_step({{4, 3}}), 7, "the sum follows backward");
  expect("two of 4 and 3", end_of_step({{4, 3}, {4, 3}}), 11,
         "the first sum runs during the second bucket's backward");
  expect("two of 2 and 5", end_of_step({{2, 5}, {2, 5}}), 12,
         "the second sum waits for the first one, not for backward");
  expect("1 and 9, 2 and 1, 20 and 4", end_of_step({{1, 9}, {2, 1}, {20, 4}}), 27,
         "backward ends at 23 whatever the sums do");
}
