// When the algorithms of a product are timed, and which of them is taken. No toolkit is needed.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ringlet::cuda {

/// Shapes that come this often, or are known to, are worth timing; batches of ever new lengths are
/// not.
inline constexpr int kUsesBeforeTiming = 50;

/// The uses of one product. Timing waits for the device, which a capture does not allow.
class TimedOnce {
 public:
  /// Of each use in turn: whether it is the one at which the product is timed.
  bool is_due(bool is_capturing, bool shapes_recur) {
    if (timed_ || is_capturing) return false;
    timed_ = ++uses_ >= kUsesBeforeTiming || shapes_recur;
    return timed_;
  }

 private:
  bool timed_ = false;
  int uses_ = 0;
};

/// What timing has found.
struct TimedChoice {
  std::size_t index = 0;  // of the fastest whose bits are the first's; 0: the first
  int alike = 0;          // how many have its bits, the first among them
  float first_ms = 0;     // 0 where the device could not run it
  float ms = 0;
};

/// Of many products.
struct ProductTimings {
  int products = 0;     // that were timed
  int choices = 0;      // of them all
  int alike = 0;        // of those, with the first's bits
  int faster = 0;       // products that got another than the first
  double first_ms = 0;  // the sum of what the first ones take
  double ms = 0;        // of what the taken ones take

  void add(const TimedChoice& found, std::size_t count) {
    ++products;
    choices += static_cast<int>(count);
    alike += found.alike;
    faster += found.index > 0;
    first_ms += static_cast<double>(found.first_ms);
    ms += static_cast<double>(found.ms);
  }
};

/// Of `count` choices, best first. milliseconds_if_alike(i) runs one: how long it takes, if the
/// device can do it and its bits are the first's.
template <class Milliseconds>
TimedChoice fastest_alike(std::size_t count, Milliseconds milliseconds_if_alike) {
  TimedChoice found;
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<float> taken = milliseconds_if_alike(i);
    if (!taken && i == 0) return found;
    if (!taken) continue;
    ++found.alike;
    if (i == 0) found.first_ms = found.ms = *taken;
    if (*taken >= found.ms) continue;
    found.index = i;
    found.ms = *taken;
  }
  return found;
}

}  // namespace ringlet::cuda
