// Progress of a long run: on a terminal one line that is rewritten, otherwise a plain line from
// time to time.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace ringlet::train {

/// "50 s", "3 min 20 s", "2 h 05 min".
std::string format_duration(double seconds);
/// Three significant digits, with k, M or G from ten thousand on: "7.32", "840", "12.3k".
std::string format_count(double count);

struct ProgressOptions {
  bool terminal = false;  ///< the stream is a terminal: rewrite the line, more often
  /// Seconds since any fixed point; the steady clock unless given.
  std::function<double()> clock = {};
  std::vector<std::string> datasets = {};  ///< if several: the latest loss of each is shown
};

/// "step 120/1000  loss 0.8123  312 pairs/s  8.1k tokens/s  2 min 30 s left"; with several data
/// sets "step 120/1000  nli 0.8123  sts 0.0312  …".
class Progress {
 public:
  /// Shows nothing by itself; `out` must outlive it. Time counts from here.
  Progress(std::ostream& out, std::int64_t total_steps, ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Called after each step; `pairs` and `tokens` are the step's own, `dataset` an index of the
  /// options' names. The first and the last step are always shown.
  void step(std::int64_t step, double loss, std::int64_t pairs, std::int64_t tokens,
            std::size_t dataset = 0);
  /// Leaves out the time since the last step, as evaluating and saving are not training.
  void skip_time();
  /// Prints a separate line above the progress line.
  void note(const std::string& line);
  /// The line as it would be shown now.
  std::string line() const;

 private:
  double now() const;
  void show();
  void clear();

  std::ostream& out_;
  std::int64_t total_;
  ProgressOptions options_;
  double last_time_;    // of the last step
  double shown_at_;     // when a line was shown last
  double seconds_ = 0;  // of all steps
  std::int64_t step_ = 0;
  std::int64_t steps_here_ = 0;  // a resumed run does not start at step 1
  std::vector<double> losses_;   // the latest of each data set; NaN before its first
  std::int64_t pairs_ = 0;
  std::int64_t tokens_ = 0;
  std::size_t width_ = 0;  // of the line on the terminal
};

}  // namespace ringlet::train
