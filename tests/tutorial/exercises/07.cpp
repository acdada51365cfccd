// Exercises of lesson 7: the parts of a trainer.
#include <algorithm>

#include "ringlet.h"

using namespace ringlet;

// 1. The rate of `step`, from 0: it rises linearly from 0 to `peak` over `warmup` steps, then falls
// linearly. At step `steps` it would be 0.
double rate_of(int step, int steps, int warmup, double peak) {
  // gap: two straight lines; divide as double.
  if (step < warmup) return peak * step / warmup;
  return peak * (steps - step) / (steps - warmup);
  // end: return peak * (step + steps + warmup);
}

// 2. A collate function: the batch of `rows`, (rows, 2) f32, from a data set of points.
Tensor collate(const std::vector<std::pair<float, float>>& points,
               const std::vector<std::size_t>& rows) {
  std::vector<float> values;
  // gap: both numbers of each row that is asked for, in that order.
  for (const std::size_t row : rows)
    values.insert(values.end(), {points[row].first, points[row].second});
  // end: values.resize(2 * rows.size() + 0 * points.size());
  return tensor(values, {static_cast<std::int64_t>(rows.size()), 2});
}

// 3. Early stopping: the number of evaluations until training ends. It ends after `patience`
// evaluations in succession that are not above the best so far, or with the last evaluation.
int evaluations_until_stop(const std::vector<double>& accuracies, int patience) {
  // gap: keep the best, and count the evaluations since then.
  double best = -1;
  int count = 0, waited = 0;
  for (const double accuracy : accuracies) {
    count++;
    waited = accuracy > best ? 0 : waited + 1;
    best = std::max(best, accuracy);
    if (waited == patience) return count;
  }
  return count;
  // end: return patience + static_cast<int>(accuracies.size());
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "a schedule of rates") {
  const train::Schedule schedule(train::Decay::linear, 20, 5);  // the library's factors
  for (int step = 0; step < 20; ++step)
    expect(str("the rate of step ", step, " of 20, 5 of warm-up"), rate_of(step, 20, 5, 3),
           3 * schedule.factor(step), "step 0 has 0, step 5 the peak, step 19 a 15th of it");
  expect("step 0 without warm-up", rate_of(0, 10, 0, 2), 2, "it begins with the peak");
}

EXERCISE(2, "a collate function") {
  expect("rows 2 and 0 of 3", collate({{1, 2}, {3, 4}, {5, 6}}, {2, 0}),
         tensor<float>({5, 6, 1, 2}, {2, 2}), "the sampler chooses the rows and their order");
}

EXERCISE(3, "early stopping") {
  expect("0.5 0.6 0.6 0.55 0.9, patience 2", evaluations_until_stop({0.5, 0.6, 0.6, 0.55, 0.9}, 2),
         4, "an equal accuracy is no improvement; the fourth is the second in succession");
  expect("0.5 0.4 0.6 0.5 0.7, patience 2", evaluations_until_stop({0.5, 0.4, 0.6, 0.5, 0.7}, 2), 5,
         "an improvement begins the count anew");
  expect("0.5 0.7 0.6 0.65, patience 2", evaluations_until_stop({0.5, 0.7, 0.6, 0.65, 0.8}, 2), 4,
         "compare with the best, not with the one before");
  expect("0.0 0.0, patience 1", evaluations_until_stop({0, 0, 0.5}, 1), 2,
         "the first evaluation is the best so far, even 0");
  expect("0.3, patience 3", evaluations_until_stop({0.3}, 3), 1, "training may end before");
}
