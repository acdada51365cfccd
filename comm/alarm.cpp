#include "ringlet/comm/alarm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>

#include "ringlet/comm/host.h"

namespace ringlet::comm {
namespace {

// The state of an alarm that its ranks share. `text` is written once, between `writing` and
// `raised`.
struct Slate {
  enum : std::uint32_t { quiet, writing, raised };
  std::atomic<std::uint32_t> state{quiet};
  char text[4000 + 1] = {};
};

class SharedAlarm final : public Alarm {
 public:
  void raise(const std::string& cause) override {
    std::uint32_t expected = Slate::quiet;
    if (!slate_->state.compare_exchange_strong(expected, Slate::writing)) return;
    const std::size_t length = std::min(cause.size(), sizeof(slate_->text) - 1);
    std::memcpy(slate_->text, cause.data(), length);
    slate_->text[length] = '\0';
    slate_->state.store(Slate::raised);
  }

  bool raised() const override { return slate_->state.load() != Slate::quiet; }

  std::string cause() const override {
    if (!raised()) return "";
    // The rank that raised it may have been killed while it wrote.
    for (int i = 0; i < 1000 && slate_->state.load() != Slate::raised; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return slate_->state.load() == Slate::raised ? slate_->text : "a rank ended";
  }

 private:
  const std::shared_ptr<void> memory_ = shared_memory(sizeof(Slate));
  Slate* const slate_ = new (memory_.get()) Slate;
};

}  // namespace

std::shared_ptr<Alarm> make_alarm() { return std::make_shared<SharedAlarm>(); }

}  // namespace ringlet::comm
