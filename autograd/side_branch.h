// A second stream of a captured step, for gradients of weights. Its low priority lets other kernels
// run first.
#pragma once

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "ringlet/autograd/variable.h"
#include "ringlet/core/device/stream.h"

namespace ringlet::autograd {

class SideBranch {
 public:
  /// Called when a leaf's gradient is complete, which the branch may still have to compute.
  using OnComplete = std::function<void(const VariableState& leaf)>;

  /// Make it before the capture.
  explicit SideBranch(Device device);
  SideBranch(const SideBranch&) = delete;
  SideBranch& operator=(const SideBranch&) = delete;
  void on_complete(OnComplete call) { on_complete_ = std::move(call); }

  /// Within a capture: a scope in which the branch takes this thread's work. It ends with join().
  /// No leaf has hooks, which would read gradients before that. Observers read them in run_behind.
  class Scope {
   public:
    explicit Scope(SideBranch& branch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    SideBranch* before_;
  };

  /// Enqueues `work` on the branch, after all that this thread has enqueued so far. The memory of
  /// `reads` stays allocated until the captured stream has waited for the work. All else that it
  /// reads or writes must stay as it is until the next join.
  void run(const std::vector<Tensor>& reads, const std::function<void()>& work);
  /// This thread's next work waits for the branch.
  void join();

  /// This thread's branch, or null. Without one, join_current and leaf_is_complete do nothing.
  static SideBranch* current();
  static void join_current();
  /// Enqueues `work` after all that this thread and its branch have been given; neither of them
  /// waits for what `work` enqueues on other streams.
  static void run_behind(const std::function<void()>& work) {
    current() ? current()->run({}, work) : work();
  }
  static void leaf_is_complete(const VariableState& leaf);

 private:
  struct Read {
    Tensor tensor;
    std::uint64_t version;
  };
  /// Consecutive work of the branch.
  struct Part {
    explicit Part(Device device) : done(device) {}
    std::vector<Read> reads;
    int runs = 0;
    StreamEvent done;
  };
  /// Bounds the memory that `reads` keep: the captured stream waits for a part once the next is
  /// full.
  static constexpr int kRunsOfPart = 8;

  void end_part(Part& part);
  static void release(Part& part);

  SideStream stream_;
  StreamEvent fork_;
  std::array<Part, 2> parts_;  // the older one has ended
  Device device_;
  OnComplete on_complete_;
};

}  // namespace ringlet::autograd
