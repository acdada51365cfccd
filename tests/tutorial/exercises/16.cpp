// Exercises of lesson 16: ranks that fail.
#include <algorithm>
#include <limits>

#include "ringlet.h"

using namespace ringlet;

// 1. The ranks to be named in an error: those that arrived at a collective after the deadline, in
// seconds from the first arrival. A rank that never arrives has the time infinity.
std::vector<int> missing_ranks(const std::vector<double>& arrivals, double deadline) {
  std::vector<int> missing;
  // gap: the first arrival is the least number of arrivals, not 0.
  const double first = *std::min_element(arrivals.begin(), arrivals.end());
  for (std::size_t rank = 0; rank < arrivals.size(); ++rank)
    if (arrivals[rank] - first > deadline) missing.push_back(static_cast<int>(rank));
  // end: missing.resize(arrivals.size(), static_cast<int>(deadline));
  return missing;
}

// 2. The step from which all ranks can resume: the newest one of which every rank has a checkpoint;
// 0 if there is none. saved[r] has the steps of rank r, ascending.
int resume_step(const std::vector<std::vector<int>>& saved) {
  // gap: go through the steps of rank 0; std::ranges::count(steps, step) tells whether it is there.
  int newest = 0;
  for (const int step : saved[0]) {
    bool everywhere = true;
    for (const std::vector<int>& steps : saved)
      everywhere = everywhere && std::ranges::count(steps, step) == 1;
    if (everywhere) newest = step;
  }
  return newest;
  // end: return saved[0].back();
}

// 3. Each rank calls `work`, which may throw an Error on some ranks. Then all ranks throw the same
// Error, "rank R: MESSAGE" of the first such rank. Without it a rank that failed would leave its
// peers in their next collective. Messages are not empty.
void together(const std::function<void()>& work, const comm::Group& world) {
  // gap: catch the Error, exchange the messages by world.all_gather_bytes, throw Error(text).
  std::string message;
  try {
    work();
  } catch (const Error& error) {
    message = error.what();
  }
  const std::vector<std::string> messages = world.all_gather_bytes(message);
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    if (!messages[rank].empty()) throw Error(str("rank ", rank, ": ", messages[rank]));
  // end: if (world.size() > 0) work();
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "the missing ranks") {
  const double never = std::numeric_limits<double>::infinity();
  expect("arrivals at 10, 11, never, 15 s, deadline 2 s", missing_ranks({10, 11, never, 15}, 2),
         {2, 3}, "rank 3 came 5 s after rank 0, the first");
  expect("arrivals at 9, 1 s, deadline 2 s", missing_ranks({9, 1}, 2), {0}, "rank 1 was first");
  expect("arrivals at 7, 5, 6 s, deadline 2 s", missing_ranks({7, 5, 6}, 2), {},
         "rank 0 arrives at the deadline, not after it");
}

EXERCISE(2, "the step to resume from") {
  expect("10 20 30 | 10 20 | 10 20 30", resume_step({{10, 20, 30}, {10, 20}, {10, 20, 30}}), 20,
         "rank 1 ended before it saved step 30");
  expect("10 20 | 20 30", resume_step({{10, 20}, {20, 30}}), 20, "an old one may be removed");
  expect("10 30 | 10 20", resume_step({{10, 30}, {10, 20}}), 10, "20 is no step of rank 0");
  expect("10 | 20", resume_step({{10}, {20}}), 0, "they have none in common");
}

EXERCISE(3, "an error on all ranks") {
  comm::launch(
      [](const comm::Group& world) {
        const auto message = [&](int first_to_fail) {
          try {
            together(
                [&] {
                  if (world.rank() >= first_to_fail) throw Error(str("no file ", world.rank()));
                },
                world);
          } catch (const Error& error) {
            return std::string(error.what());
          }
          return std::string("no error");
        };
        expect("if ranks 1 and 2 fail", message(1), "rank 1: no file 1",
               "all ranks gather all messages and throw the first");
        expect("if all ranks fail", message(0), "rank 0: no file 0", "rank 0 is a rank");
        expect("if no rank fails", message(3), "no error", "no message is an empty text");
      },
      3, {.group = {.timeout = std::chrono::seconds(5)}});
}
