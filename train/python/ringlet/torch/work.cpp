#include "work.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "ringlet/core/base/error.h"

namespace ringlet::pytorch {
namespace {

/// As PyTorch's error of collectives, with the group's ranks and timeout.
std::exception_ptr named(const std::exception_ptr& error, const std::string& where) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& cause) {
    return std::make_exception_ptr(c10::DistBackendError(
        c10::SourceLocation{__func__, __FILE__, __LINE__}, cause.what() + where));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

Work::Work(const CallName& name, int rank, const Tensors& inputs, Tensors results,
           std::string where)
    : c10d::Work(rank, name.type, name.title, inputs),
      name_(name),
      results_(std::move(results)),
      where_(std::move(where)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

void Work::follow(const comm::Work& last, std::vector<std::function<void()>> after) {
  last_ = last;
  complete_after(last, std::move(after));
}

void Work::complete_after(const comm::Work& last, std::vector<std::function<void()>> after) {
  const auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
  last.when_done([self, after = std::move(after)](std::exception_ptr error) {
    try {
      // Any thread writes here, and the caller's tensors may be those of its inference mode.
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      if (!error)
        for (const auto& next : after) next();
    } catch (...) {
      error = std::current_exception();
    }
    self->complete(error);
  });
}

void Work::complete(std::exception_ptr error) {
  if (error) {
    error = named(error, where_);
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(results_));
  }
  finish(error);
}

void Work::run() const {
  try {
    last_.wait();
  } catch (const std::exception&) {  // complete() keeps it
  }
}

bool Work::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) timeout = name_.timeout;
  if (timeout <= kNoTimeout) {
    run();
    return c10d::Work::wait();
  }
  std::unique_lock lock(mutex_);
  const bool completed = cv_.wait_for(lock, timeout, [this] { return completed_; });
  TORCH_CHECK_WITH(DistBackendError, completed, "[", name_.title, "] rank ", rank_, " waited ",
                   comm::seconds_of(timeout), " s, the timeout of this wait", where_);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

}  // namespace ringlet::pytorch
