#include "ringlet/comm/alarm.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

// The state of an alarm that its ranks share. `text` is written once, between `writing` and
// `raised`.
struct Slate {
  enum : std::uint32_t { quiet, writing, raised };
  std::atomic<std::uint32_t> state{quiet};
  char text[4000 + 1] = {};
};

class SlateAlarm final : public Alarm {
 public:
  explicit SlateAlarm(std::shared_ptr<Slate> slate) : slate_(std::move(slate)) {}

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
  std::shared_ptr<Slate> slate_;
};

}  // namespace

std::string fuller(const std::string& cause, const std::string& what) {
  return what.starts_with(cause) ? what : cause;
}

std::shared_ptr<Alarm> make_local_alarm() {
  return std::make_shared<SlateAlarm>(std::make_shared<Slate>());
}

std::shared_ptr<Alarm> make_forked_alarm() {
  void* shared =
      mmap(nullptr, sizeof(Slate), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  RINGLET_CHECK(shared != MAP_FAILED, "[alarm] no shared memory: ", std::strerror(errno));
  return std::make_shared<SlateAlarm>(std::shared_ptr<Slate>(
      new (shared) Slate, [](Slate* slate) { munmap(slate, sizeof(Slate)); }));
}

}  // namespace ringlet::comm
