// When the algorithms of a product are timed, and which one is chosen. Needs no toolkit.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ringlet::cuda {

/// Only shapes with this many uses, or known to recur, are timed: batches often have new lengths.
inline constexpr int kUsesBeforeTiming = 50;

/// The uses of one product. Timing synchronises with the device, which a capture does not allow.
class TimedOnce {
 public:
  /// Call once per use. Whether to time the product at this use.
  bool is_due(bool is_capturing, bool shapes_recur) {
    if (timed_ || is_capturing) return false;
    timed_ = ++uses_ >= kUsesBeforeTiming || shapes_recur;
    return timed_;
  }

 private:
  bool timed_ = false;
  int uses_ = 0;
};

/// The result of timing.
struct TimedChoice {
  std::size_t index = 0;  // of the fastest with the bits of the first; 0: the first
  int alike = 0;          // choices with these bits, including the first
  float first_ms = 0;     // 0 if the device could not run it
  float ms = 0;
};

/// The sum over many products.
struct ProductTimings {
  int products = 0;     // that were timed
  int choices = 0;      // of all of them
  int alike = 0;        // choices with the bits of the first
  int faster = 0;       // products with another choice than the first
  double first_ms = 0;  // sum of the times of the first choices
  double ms = 0;        // sum of the times of the chosen ones

  void add(const TimedChoice& found, std::size_t count) {
    ++products;
    choices += static_cast<int>(count);
    alike += found.alike;
    faster += found.index > 0;
    first_ms += static_cast<double>(found.first_ms);
    ms += static_cast<double>(found.ms);
  }
};

/// Chooses among `count` choices, best first. milliseconds_if_alike(i) runs one and returns its
/// time; or nothing, if the device cannot run it or its bits differ from the first's.
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
