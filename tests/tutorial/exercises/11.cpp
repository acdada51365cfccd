// Exercises of lesson 11: DDP.
#include <algorithm>

#include "ringlet.h"

using namespace ringlet;

// 1. The rows [begin, end) of a batch that `rank` of `size` ranks trains on. All rows are used
// once, in the order of the ranks; the counts of two ranks differ by at most 1.
std::pair<int, int> rows_of(int rank, int size, int rows) {
  // gap: rank r begins where r shares of rows / size end. Divide last.
  return {rank * rows / size, (rank + 1) * rows / size};
  // end: return {};
}

// 2. Makes the gradients of `module` the sums over all ranks, as DDP does. Undefined ones stay.
void sum_gradients(nn::Module& module, const comm::Group& world) {
  // gap: for each parameter an all_reduce of grad(), and wait for its end.
  for (const nn::Parameter& parameter : module.parameters()) {
    Tensor grad = parameter.grad();
    if (grad) world.all_reduce(grad).wait();
  }
  // end:
}

// 3. Buckets. Backward completes gradients from the last parameter to the first. A bucket takes
// them in that order until it has at least `least` elements. Returns the parameters of each bucket.
std::vector<std::vector<int>> make_buckets(const std::vector<int>& elements, int least) {
  std::vector<std::vector<int>> buckets;
  // gap: begin a bucket when there is none, or when the last one is full.
  int filled = 0;
  for (int i = static_cast<int>(elements.size()) - 1; i >= 0; --i) {
    if (buckets.empty() || filled >= least) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(i);
    filled += elements[static_cast<std::size_t>(i)];
  }
  // end: static_cast<void>(least + static_cast<int>(elements.size()));
  return buckets;
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "the rows of a rank") {
  for (const auto& [size, rows] : {std::pair{1, 5}, {2, 8}, {3, 8}, {4, 10}, {4, 2}}) {
    int next = 0;
    for (int rank = 0; rank < size; ++rank) {
      const auto [begin, end] = rows_of(rank, size, rows);
      const std::string where = str(" of rank ", rank, " of ", size, " for ", rows, " rows");
      expect("the first row" + where, begin, next, "it begins where the previous rank ends");
      const int least = rows / size, found = end - begin;
      expect("the number of rows" + where, found,
             std::clamp(found, least, rows % size > 0 ? least + 1 : least),
             str("a rank has ", rows, " / ", size, " rows, rounded up or down"));
      next = end;
    }
    expect(str("the end of ", size, " ranks"), next, rows, "the last rank ends with the batch");
  }
}

EXERCISE(2, "the sum of gradients") {
  comm::launch(
      [](const comm::Group& world) {
        manual_seed(8);
        nn::Linear line(2, 1), unused(2, 1);
        const auto rank = static_cast<float>(world.rank());
        autograd::sum(line(Variable(tensor<float>({rank, 1}, {1, 2})))).backward();
        sum_gradients(line, world);
        sum_gradients(unused, world);
        expect("the weight's gradient", line.parameter("weight").grad().to_vector(), {0 + 1 + 2, 3},
               "every rank adds its own; all get the sum");
        expect("the bias's gradient", line.parameter("bias").grad().to_vector(), {3},
               "the bias is a parameter, too");
      },
      3, {.group = {.timeout = std::chrono::seconds(5)}});
}

EXERCISE(3, "buckets") {
  using Buckets = std::vector<std::vector<int>>;
  expect("buckets of {5, 1, 5, 1}, at least 6", make_buckets({5, 1, 5, 1}, 6),
         Buckets{{3, 2}, {1, 0}}, "from the last parameter to the first");
  expect("buckets of {9, 1, 1, 1}, at least 2", make_buckets({9, 1, 1, 1}, 2),
         Buckets{{3, 2}, {1, 0}}, "a bucket may become larger than `least`");
  expect("buckets of {4, 4, 4}, at least 5", make_buckets({4, 4, 4}, 5), Buckets{{2, 1}, {0}},
         "the last bucket has what is left");
  expect("buckets of nothing", make_buckets({}, 5), Buckets{}, "no bucket is empty");
}
