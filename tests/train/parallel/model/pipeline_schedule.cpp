// Pipeline schedules as data: completeness, time, memory, and that they cannot deadlock.
#include "ringlet/train/parallel/model/pipeline_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "ringlet/core/base/error.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr PipelineKind kKinds[] = {PipelineKind::gpipe, PipelineKind::one_f_one_b,
                                   PipelineKind::interleaved, PipelineKind::zero_bubble};

/// Calls `run` for each schedule of many sizes.
template <class Run>
void for_each_pipeline(const Run& run) {
  for (const PipelineKind kind : kKinds)
    for (const int ranks : {1, 2, 3, 4, 6, 8}) {
      const bool interleaved = kind == PipelineKind::interleaved;
      const std::set<int> counts =
          interleaved ? std::set{ranks, 2 * ranks, 4 * ranks}
                      : std::set{1, 2, std::max(1, ranks - 1), ranks, 2 * ranks, 8};
      for (const int micro_batches : counts)
        for (const int chunks : interleaved ? std::set{2, 3} : std::set{1}) {
          const PipelineShape shape{ranks, micro_batches, chunks};
          INFO(kPipelines(kind), " of ", ranks, " ranks, ", micro_batches, " micro-batches, ",
               chunks, " chunks");
          run(kind, shape, make_pipeline(kind, shape));
        }
    }
}

/// "F0 F1 B0", with a letter behind each for the chunk if there are several.
std::string order_of(const std::vector<PipelineAction>& actions, bool chunks = false) {
  std::string text;
  for (const PipelineAction& action : actions) {
    text += str(text.empty() ? "" : " ", letter(action.what), action.micro_batch);
    if (chunks) text += static_cast<char>('a' + action.chunk);
  }
  return text;
}

}  // namespace

TEST_CASE("every micro-batch passes every chunk once in each direction, in order") {
  for_each_pipeline(
      [](PipelineKind kind, const PipelineShape& shape, const PipelineSchedule& schedule) {
        for (const auto& actions : schedule) {
          std::map<std::pair<Computation, int>, std::vector<int>> order;  // micro-batches
          std::map<std::pair<int, int>, std::string> letters;             // of (chunk, micro-batch)
          for (const PipelineAction& action : actions) {
            order[{action.what, action.chunk}].push_back(action.micro_batch);
            letters[{action.chunk, action.micro_batch}] += letter(action.what);
          }
          CHECK_EQ(std::ssize(letters), shape.chunks * shape.micro_batches);
          for (const auto& [place, text] : letters)
            CHECK_EQ(text, kind == PipelineKind::zero_bubble ? "FIW" : "FB");
          // Gradients of a parameter are then added in the order of micro-batches.
          for (const auto& [place, micro_batches] : order)
            CHECK(std::ranges::is_sorted(micro_batches));
        }
      });
}

TEST_CASE("four ranks and eight micro-batches are as published") {
  const auto orders = [](PipelineKind kind) {
    std::vector<std::string> all;
    for (const auto& actions : make_pipeline(kind, {4, 8})) all.push_back(order_of(actions));
    return all;
  };
  using Orders = std::vector<std::string>;
  CHECK(orders(PipelineKind::one_f_one_b) ==
        Orders{"F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7",
               "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7",
               "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7",
               "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"});
  CHECK(orders(PipelineKind::zero_bubble) ==
        Orders{"F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7",
               "F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7",
               "F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7",
               "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7"});
  CHECK_EQ(
      order_of(make_pipeline(PipelineKind::interleaved, {4, 8, 2})[0], true),
      "F0a F1a F2a F3a F0b F1b F2b F3b F4a F5a F6a B0b F7a B1b F4b B2b F5b B3b F6b B0a F7b B1a "
      "B2a B3a B4b B5b B6b B7b B4a B5a B6a B7a");
}

TEST_CASE("the time of a step is the work of a rank and the published bubble") {
  for (const PipelineCosts& costs : {PipelineCosts{}, {2, 3, 1.5}, {1, 2, 1}}) {
    for_each_pipeline(
        [&](PipelineKind kind, const PipelineShape& shape, const PipelineSchedule& schedule) {
          const double work = shape.micro_batches * shape.chunks * costs.sum();
          double bubble = (shape.ranks - 1) * costs.sum();
          if (kind == PipelineKind::zero_bubble)
            bubble =
                (shape.ranks - 1) * (costs.forward + costs.input_gradient - costs.weight_gradient) +
                std::max(0, shape.ranks - shape.micro_batches) * costs.weight_gradient;
          const PipelineTimes times = simulate_pipeline(schedule, shape, costs);
          CHECK_EQ(times.makespan, doctest::Approx(work + bubble));
          CHECK_EQ(times.bubble(), doctest::Approx(bubble / (work + bubble)));
        });
  }
}

TEST_CASE("ranks keep what the schedule promises, and send each result once") {
  for_each_pipeline(
      [](PipelineKind kind, const PipelineShape& shape, const PipelineSchedule& schedule) {
        const PipelineTimes times = simulate_pipeline(schedule, shape);
        const int ranks = shape.ranks, count = shape.micro_batches, chunks = shape.chunks;
        for (int rank = 0; rank < ranks; ++rank) {
          int most = count;  // gpipe
          if (kind == PipelineKind::one_f_one_b || kind == PipelineKind::zero_bubble)
            most = std::min(ranks - rank, count);
          if (kind == PipelineKind::interleaved)
            most = std::min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks + 1, count * chunks);
          const auto at = static_cast<std::size_t>(rank);
          CHECK_EQ(times.peak_activations[at], most);
          CHECK_EQ(times.peak_weight_inputs[at],
                   kind == PipelineKind::zero_bubble ? std::min(ranks, count) : most);
        }
        CHECK_EQ(times.messages, ranks == 1 ? 0 : 2 * (shape.stages() - 1) * count);
      });
}

TEST_CASE("a lane with room for one message never deadlocks; without room, all but gpipe do") {
  for_each_pipeline(
      [](PipelineKind kind, const PipelineShape& shape, const PipelineSchedule& schedule) {
        CHECK_NOTHROW(simulate_pipeline(schedule, shape, {}, 1));
        if (kind == PipelineKind::gpipe)
          CHECK_NOTHROW(simulate_pipeline(schedule, shape, {}, 0));
        else if (shape.ranks > 1 && shape.micro_batches > 1)
          CHECK_THROWS_AS(simulate_pipeline(schedule, shape, {}, 0), Error);
      });
  CHECK_THROWS_WITH_AS(
      simulate_pipeline(make_pipeline(PipelineKind::one_f_one_b, {2, 2}), {2, 2}, {}, 0),
      "[pipeline] deadlock: rank 0 at F1 of stage 0, sending, rank 1 at B0 of stage 1, sending",
      Error);
}

TEST_CASE("a schedule that cannot run is refused, with the place") {
  PipelineSchedule schedule = make_pipeline(PipelineKind::gpipe, {2, 2});
  std::swap(schedule[1][0], schedule[1][1]);
  CHECK_THROWS_WITH_AS(simulate_pipeline(schedule, {2, 2}),
                       doctest::Contains("F1 of stage 1 receives micro-batch"), Error);
  schedule = make_pipeline(PipelineKind::gpipe, {2, 2});
  schedule[1].pop_back();
  CHECK_THROWS_WITH_AS(simulate_pipeline(schedule, {2, 2}),
                       "[pipeline] deadlock: rank 0 at B1 of stage 0, receiving", Error);
  const auto refused = [](PipelineKind kind, const PipelineShape& shape, const char* why) {
    CHECK_THROWS_WITH_AS(make_pipeline(kind, shape), why, InputError);
  };
  refused(PipelineKind::interleaved, {4, 6, 2},
          "pipeline interleaved-1f1b: expected a multiple of 4 micro-batches, found 6");
  refused(PipelineKind::interleaved, {4, 8},
          "pipeline interleaved-1f1b: expected at least 2 chunks of each rank, found 1");
  refused(PipelineKind::gpipe, {4, 8, 2}, "pipeline gpipe: expected 1 chunk of each rank, found 2");
  refused(PipelineKind::gpipe, {4, 0},
          "pipeline: expected at least 1 rank, micro-batch and chunk, found 4, 0 and 1");
}

TEST_SUITE_END();
