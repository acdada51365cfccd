// A collective of PyTorch: the work of ringlet's group, and what follows on this rank.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::pytorch {

using Tensors = std::vector<at::Tensor>;

/// The identity of a call, for its Work, profiles and messages.
struct CallName {
  CallName(c10d::OpType its_type, const char* its_title) : type(its_type), title(its_title) {}
  template <class CallOptions>
  CallName(c10d::OpType its_type, const char* its_title, const CallOptions& options)
      : type(its_type),
        title(its_title),
        timeout(options.timeout),
        caller_waits(!options.asyncOp && options.timeout <= kNoTimeout) {}

  c10d::OpType type;
  const char* title;                               // "ringlet:all_reduce"
  std::chrono::milliseconds timeout = kNoTimeout;  // of this call; none: the group's
  bool caller_waits = false;                       // next, without a timeout
};

class Work final : public c10d::Work {
 public:
  /// `where` is added to errors. `results` are those of the future.
  Work(const CallName& name, int rank, const Tensors& inputs, Tensors results, std::string where);

  /// Completes after `last` and then `after`, run on the thread that ran the collective.
  /// Collectives of a group end in order, so `last` stands for the earlier ones of this call.
  void follow(const comm::Work& last, std::vector<std::function<void()>> after);
  /// The same for a Work that others may wait for already: they do not run the collective.
  void complete_after(const comm::Work& last, std::vector<std::function<void()>> after);
  void complete(std::exception_ptr error);
  /// Returns when the collective has ended, which the caller may run itself.
  void run() const;
  void set_source(int rank) { source_ = rank; }

  /// Without a timeout, the waiting thread may run the collective itself.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  int sourceRank() const override { return source_; }
  Tensors result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::chrono::milliseconds getTimeout() const override { return name_.timeout; }

 private:
  CallName name_;
  Tensors results_;
  std::string where_;
  int source_ = -1;
  comm::Work last_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace ringlet::pytorch
