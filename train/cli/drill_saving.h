// The drill's faults in the middle of a checkpoint: from some byte of its files on this process
// cannot write.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <ostream>
#include <streambuf>

namespace ringlet::cli {

/// Rank 0 makes the files, in their whole length, and fails in that every other time.
bool fails_making(int culprit, double point);

/// Strikes this process once, while it saves: the write that reaches a byte fails, or kills it.
class SavingFault final : private std::streambuf {
 public:
  /// `folder`, `culprit` and `point` are those of DrillRank; `kills`: the write kills the process.
  SavingFault(const std::filesystem::path& folder, int culprit, double point, bool kills)
      : folder_(folder), culprit_(culprit), point_(point), kills_(kills), stream_(this) {}
  SavingFault(const SavingFault&) = delete;
  SavingFault& operator=(const SavingFault&) = delete;

  /// For GroupOptions::trace: it is called at every collective, including the one between creating
  /// the files and writing them.
  std::ostream* trace() { return &stream_; }
  /// Strikes in the next checkpoint. This rank writes bytes in [begin, end) of its files, in the
  /// larger one up to the last of them.
  void arm(std::size_t begin, std::size_t end);

 private:
  std::streamsize xsputn(const char*, std::streamsize n) override { return n; }
  int_type overflow(int_type c) override { return traits_type::not_eof(c); }
  int sync() override;
  void strike() const;

  const std::filesystem::path folder_;
  const int culprit_;
  const double point_;
  const bool kills_;
  std::ostream stream_;
  std::size_t limit_ = 0;  // bytes
  std::atomic<bool> armed_{false};
};

}  // namespace ringlet::cli
