#include "ringlet/train/report/progress.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace ringlet::train;

TEST_CASE("durations and counts are short") {
  CHECK_EQ(format_duration(0), "0 s");
  CHECK_EQ(format_duration(59.4), "59 s");
  CHECK_EQ(format_duration(200), "3 min 20 s");
  CHECK_EQ(format_duration(7500), "2 h 05 min");
  CHECK_EQ(format_duration(-1), "?");
  CHECK_EQ(format_count(7.316), "7.32");
  CHECK_EQ(format_count(43.21), "43.2");
  CHECK_EQ(format_count(839.7), "840");
  CHECK_EQ(format_count(9999.4), "9999");
  CHECK_EQ(format_count(12345), "12.3k");
  CHECK_EQ(format_count(999999), "1.00M");
}

TEST_CASE("away from a terminal, plain lines appear at the start, at intervals and at the end") {
  double time = 0;
  std::ostringstream out;
  {
    Progress progress(out, 100, {.clock = [&] { return time; }});
    for (int step = 1; step <= 100; ++step) {
      time += 0.125;
      progress.step(step, 1.0 / step, 32, 1000);
    }
  }
  CHECK_EQ(out.str(),
           "step 1/100  loss 1.0000  256 pairs/s  8000 tokens/s  12 s left\n"
           "step 41/100  loss 0.0244  256 pairs/s  8000 tokens/s  7 s left\n"
           "step 81/100  loss 0.0123  256 pairs/s  8000 tokens/s  2 s left\n"
           "step 100/100  loss 0.0100  256 pairs/s  8000 tokens/s  in 13 s\n");
}

TEST_CASE("on a terminal the line rewrites itself, and notes stand above it") {
  double time = 0;
  std::ostringstream out;
  {
    Progress progress(out, 2, {.terminal = true, .clock = [&] { return time += 1; }});
    progress.step(1, 0.5, 1, 1);
    progress.note("saved");
  }
  const std::string line = "step 1/2  loss 0.5000  1.00 pairs/s  1.00 tokens/s  1 s left";
  CHECK_EQ(out.str(), line + "\r" + std::string(line.size(), ' ') + "\rsaved\n");
}

TEST_CASE("time for evaluation does not count, and a resumed run counts its own steps") {
  double time = 0;
  std::ostringstream out;
  Progress progress(out, 20, {.clock = [&] { return time; }});
  time = 1;
  progress.step(11, 1, 10, 100);
  time = 60;
  progress.skip_time();
  time = 61;
  progress.step(12, 1, 10, 100);
  CHECK_EQ(progress.line(), "step 12/20  loss 1.0000  10.0 pairs/s  100 tokens/s  8 s left");
}

TEST_CASE("the latest loss of each data set is shown") {
  double time = 0;
  std::ostringstream out;
  Progress progress(out, 20, {.clock = [&] { return time += 1; }, .datasets = {"nli", "sts"}});
  progress.step(1, 0.5, 10, 100, 0);
  CHECK_EQ(progress.line(), "step 1/20  nli 0.5000  10.0 pairs/s  100 tokens/s  19 s left");
  progress.step(2, 0.0625, 10, 100, 1);
  progress.step(3, 0.25, 10, 100, 0);
  CHECK_EQ(out.str().substr(0, out.str().find('\n')),
           "step 1/20  nli 0.5000  10.0 pairs/s  100 tokens/s  19 s left");
  CHECK(progress.line().starts_with("step 3/20  nli 0.2500  sts 0.0625  "));
}
