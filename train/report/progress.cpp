#include "ringlet/train/report/progress.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <ostream>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device_time.h"

namespace ringlet::train {
std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string format_count(double count) {
  constexpr std::array<const char*, 4> kUnits{"", "k", "M", "G"};
  std::size_t unit = 0;
  if (count >= 9999.5) {
    while (count >= 999.5 && unit + 1 < kUnits.size()) {
      count /= 1000;
      ++unit;
    }
  }
  const int decimals = count < 9.995 ? 2 : (count < 99.95 ? 1 : 0);
  return fmt::format("{:.{}f}{}", count, decimals, kUnits[unit]);
}

Progress::Progress(std::ostream& out, std::int64_t total_steps, ProgressOptions options)
    : out_(out), total_(total_steps), options_(std::move(options)) {
  if (!options_.clock) options_.clock = steady_seconds;
  if (options_.datasets.size() < 2) options_.datasets = {"loss"};
  losses_.resize(options_.datasets.size(), std::numeric_limits<double>::quiet_NaN());
  last_time_ = now();
  shown_at_ = -std::numeric_limits<double>::infinity();
}

Progress::~Progress() {
  if (width_ > 0) out_ << std::endl;
}

double Progress::now() const { return options_.clock(); }

void Progress::step(std::int64_t step, double loss, std::int64_t pairs, std::int64_t tokens,
                    std::size_t dataset) {
  const double time = now();
  seconds_ += time - last_time_;
  last_time_ = time;
  step_ = step;
  ++steps_here_;
  losses_.at(dataset) = loss;
  pairs_ += pairs;
  tokens_ += tokens;
  const double every = options_.terminal ? 0.2 : 5;  // seconds
  if (step >= total_ || time - shown_at_ >= every) show();
}

void Progress::skip_time() { last_time_ = now(); }

void Progress::note(const std::string& line) {
  clear();
  out_ << line << std::endl;
}

std::string Progress::line() const {
  std::string text = str("step ", step_, '/', total_);
  for (std::size_t i = 0; i < losses_.size(); ++i)
    if (!std::isnan(losses_[i]))
      text += fmt::format("  {} {:.4f}", options_.datasets[i], losses_[i]);
  if (seconds_ <= 0) return text;
  text += str("  ", format_count(static_cast<double>(pairs_) / seconds_), " pairs/s  ",
              format_count(static_cast<double>(tokens_) / seconds_), " tokens/s  ");
  return text + (step_ < total_ ? format_duration(seconds_ / static_cast<double>(steps_here_) *
                                                  static_cast<double>(total_ - step_)) +
                                      " left"
                                : "in " + format_duration(seconds_));
}

void Progress::show() {
  shown_at_ = now();
  const std::string text = line();
  clear();
  out_ << text;
  if (options_.terminal) {
    width_ = text.size();
    out_ << std::flush;
  } else {
    out_ << std::endl;
  }
}

void Progress::clear() {
  if (width_ == 0) return;
  out_ << '\r' << std::string(width_, ' ') << '\r';
  width_ = 0;
}

}  // namespace ringlet::train
