// Exercises of lesson 17: pipelines.
#include <algorithm>
#include <limits>

#include "ringlet.h"

using namespace ringlet;

// 1. The share of its time that a stage waits, under gpipe. A stage computes a micro-batch in one
// unit. The last of m micro-batches leaves the last of p stages after m + p - 1 units.
double bubble(int p, int m) {
  // gap: the units that a stage waits, over all units; divide as double.
  return (p - 1.0) / (m + p - 1);
  // end: return p + m;
}

// 2. 1F1B, the order of stage `stage` of p, as text. With m = 3, stage 0 of 2 has "F0 F1 B0 F2 B1
// B2 ". A stage begins with one forward for each later stage, at most m. Then it alternates one
// forward and one backward, until the backwards are left. Stages count from 0.
std::string one_f_one_b(int stage, int p, int m) {
  std::string order;
  // gap: str("F", i, " ") is one; a backward follows when enough forwards are ahead.
  const int ahead = p - 1 - stage;
  for (int i = 0; i < m + ahead; ++i) {
    if (i < m) order += str("F", i, " ");
    if (i >= ahead) order += str("B", i - ahead, " ");
  }
  // end: order = str("F", stage, " B", p, " F", m);
  return order;
}

// 3. Layers cost unequal times. Cuts them into `stages` runs of neighbours, so that the slowest
// stage is as fast as possible, and returns its cost. A run has at least one layer.
int slowest_stage(const std::vector<int>& costs, int stages) {
  // gap: for one stage it is the sum. Else try each end of the first stage, and ask for the rest.
  int first = 0, best = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < costs.size(); ++i) {
    first += costs[i];
    const std::vector<int> rest(costs.begin() + static_cast<long>(i) + 1, costs.end());
    if (stages > 1 && !rest.empty())
      best = std::min(best, std::max(first, slowest_stage(rest, stages - 1)));
  }
  return stages == 1 ? first : best;
  // end: return static_cast<int>(costs.size()) / stages;
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "the bubble") {
  expect("4 stages, 8 micro-batches", bubble(4, 8), 3 / 11.0, "a stage waits p - 1 units");
  expect("2 stages, 1 micro-batch", bubble(2, 1), 0.5, "one stage computes while the other waits");
  expect("1 stage, 5 micro-batches", bubble(1, 5), 0, "there is no stage to wait for");
}

EXERCISE(2, "1F1B") {
  for (const auto& [p, m] : {std::pair{4, 8}, {3, 3}, {2, 1}, {1, 2}, {5, 2}}) {
    const train::PipelineSchedule schedule =
        train::make_pipeline(train::PipelineKind::one_f_one_b, {p, m});
    for (int stage = 0; stage < p; ++stage) {
      std::string library;
      for (const train::PipelineAction& action : schedule[static_cast<std::size_t>(stage)])
        library += str(letter(action.what), action.micro_batch, " ");
      expect(str("stage ", stage, " of ", p, ", ", m, " micro-batches"), one_f_one_b(stage, p, m),
             library, "the last stage has F0 B0 F1 B1 …");
    }
  }
}

EXERCISE(3, "a cut of layers") {
  expect("3 1 1 1 in 2 stages", slowest_stage({3, 1, 1, 1}, 2), 3, "3 | 1 1 1, not two and two");
  expect("1 2 3 4 5 in 3 stages", slowest_stage({1, 2, 3, 4, 5}, 3), 6, "1 2 3 | 4 | 5");
  expect("4 4 9 1 in 1 stage", slowest_stage({4, 4, 9, 1}, 1), 18, "all layers");
  expect("2 7 2 in 3 stages", slowest_stage({2, 7, 2}, 3), 7, "one layer each");
  expect("5 1 1 1 1 5 in 3 stages", slowest_stage({5, 1, 1, 1, 1, 5}, 3), 5, "5 | 1 1 1 1 | 5");
}
