// A group's notes on GPUs without direct access to each other's memory.
#include <doctest/doctest.h>

#include <mutex>
#include <string>
#include <vector>

#include "ranks.h"
#include "ringlet/tests/delayed_device.h"

using namespace ringlet;
using namespace ringlet::comm;

TEST_SUITE_BEGIN("host");

TEST_CASE("GPUs without a link between them are said once in a group, others never") {
  for (const bool cut : {false, true}) {
    DelayedDevice device(5);
    if (cut) device.cut_links();
    std::mutex mutex;
    std::vector<std::string> notes;
    const auto note = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      notes.push_back(line);
    };
    launch(
        [&](const Group& group) {
          const Device own{DeviceType::cuda, group.rank()};
          const Tensor x = numbered(group.rank(), 1003).to(own);
          for (int round = 0; round < 3; ++round) group.broadcast(x).wait();
        },
        3, {.group = {.on_note = note}});
    REQUIRE(notes.size() == (cut ? 1 : 0));
    if (!cut) continue;
    CAPTURE(notes[0]);
    CHECK(notes[0].find("[group] world: cuda:") == 0);
    CHECK(notes[0].find(" has no peer access to cuda:0: copies between such GPUs go through pinned "
                        "memory of the host; `ringlet info` shows which read each other's") !=
          std::string::npos);
  }
}

TEST_SUITE_END();
