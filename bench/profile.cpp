#include "profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "ceilings.h"
#include "floors.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/kernel.h"

namespace ringlet::bench {
namespace {

class TimedProfile final : public StepProfile, public KernelObserver {
 public:
  explicit TimedProfile(Device device)
      : device_(device), asynchronous_(device.type != DeviceType::cpu) {}
  ~TimedProfile() override { kernel_observer = nullptr; }

  void run(const std::function<void(bool again)>& step) override {
    thread_ = std::this_thread::get_id();
    floors_.clear();
    times_.clear();
    if (asynchronous_) weigh(step);
    const auto begin = device_time(device_);
    observe([&] { step(asynchronous_); });
    const auto end = device_time(device_);
    add_times(*begin, *end);
    ++steps_;
  }

  StepTimes per_step() const override {
    const Ceilings ceilings(device_);
    StepTimes out;
    out.between_ms = 1e3 * between_ / steps_;
    for (const auto& [label, sum] : sums_) {
      // The memory ceiling for the bytes of one call.
      const double least = ceilings.seconds(sum.floor.flops / sum.count,
                                            sum.floor.bytes / sum.count, sum.floor.dtype);
      out.kernels[label] = {sum.count / steps_, 1e3 * sum.seconds / steps_,
                            1e3 * least * sum.count / steps_};
    }
    return out;
  }

  void before(const char*, const void*, Device device) override {
    if (!counts(device) || depth_++ > 0 || weighing_) return;
    times_.push_back({device_time(device), nullptr});
  }
  void after(const char* name, const void* args, Device device) override {
    if (!counts(device) || --depth_ > 0) return;
    if (!weighing_) times_.back().end = device_time(device);
    if (weighing_ || !asynchronous_) floors_.push_back(floor_of(name, args, device));
  }

 private:
  struct Call {
    std::unique_ptr<DeviceTime> begin, end;
  };
  /// Calls with one label differ in their work (lengths, rows read), so floors are summed.
  struct Sum {
    double count = 0, seconds = 0;
    Floor floor;
  };

  bool counts(Device device) const {
    return device == device_ && std::this_thread::get_id() == thread_;
  }

  template <class Run>
  void observe(const Run& run) {
    kernel_observer = this;
    run();
    kernel_observer = nullptr;
  }

  void weigh(const std::function<void(bool again)>& step) {
    const double start = steady_seconds();
    weighing_ = true;
    observe([&] { step(false); });
    weighing_ = false;
    hold(device_,
         steady_seconds() - start);  // longer than the host's time for a step without waits
  }

  void add_times(const DeviceTime& begin, const DeviceTime& end) {
    RINGLET_CHECK_EQ(times_.size(), floors_.size(),
                     "[profile] the same step has another number of kernel calls");
    between_ += end.seconds_since(begin);
    for (std::size_t i = 0; i < times_.size(); ++i) {
      const double seconds = times_[i].end->seconds_since(*times_[i].begin);
      Sum& sum = sums_[floors_[i].label];
      sum.count += 1;
      sum.seconds += seconds;
      sum.floor.add(floors_[i]);
      between_ -= seconds;
    }
  }

  Device device_;
  bool asynchronous_, weighing_ = false;
  std::thread::id thread_;     // of the steps
  int depth_ = 0;              // nesting depth; nested calls are part of the outermost
  std::vector<Floor> floors_;  // of a step's calls, in order
  std::vector<Call> times_;
  std::map<std::string, Sum> sums_;
  double steps_ = 0;
  double between_ = 0;  // seconds
};

}  // namespace

std::unique_ptr<StepProfile> timed_profile(Device device) {
  return std::make_unique<TimedProfile>(device);
}

std::string to_markdown(const StepTimes& times) {
  std::string out =
      "| kernel | calls | ms | % of the step | floor ms | time / floor |\n"
      "|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& label, const std::string& calls, double ms,
                        double floor) {
    out += fmt::format("| {} | {} | {:.2f} | {:.1f} | {:.2f} | {} |\n", label, calls, ms,
                       100 * ms / times.step_ms, floor,
                       floor > 0 ? fmt::format("{:.2f}", ms / floor) : "-");
  };
  std::vector<std::pair<std::string, KernelSum>> rows(times.kernels.begin(), times.kernels.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  double floor_ms = 0;
  for (const auto& [label, sum] : rows) {
    line(label, fmt::format("{:.0f}", sum.calls), sum.ms, sum.floor_ms);
    floor_ms += sum.floor_ms;
  }
  line("between kernels", "-", times.between_ms, 0);
  line("the step", "-", times.step_ms, floor_ms);
  return out;
}

}  // namespace ringlet::bench
