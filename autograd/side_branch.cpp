#include "ringlet/autograd/side_branch.h"

#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::autograd {
namespace {

thread_local SideBranch* current_here = nullptr;

}  // namespace

SideBranch::SideBranch(Device device)
    : stream_(device, StreamPriority::low),
      fork_(device),
      parts_{Part(device), Part(device)},
      device_(device) {}

SideBranch* SideBranch::current() { return current_here; }
void SideBranch::join_current() {
  if (current_here) current_here->join();
}
void SideBranch::leaf_is_complete(const VariableState& leaf) {
  if (current_here && current_here->on_complete_) current_here->on_complete_(leaf);
}

SideBranch::Scope::Scope(SideBranch& branch) {
  const StreamGuard on(branch.stream_);
  backend(branch.device_.type).join_capture(branch.device_);
  before_ = std::exchange(current_here, &branch);
}
SideBranch::Scope::~Scope() {
  SideBranch& branch = *std::exchange(current_here, before_);
  try {
    branch.join();
  } catch (const Error&) {
    // Another error has ended the scope before its join().
  }
}

void SideBranch::run(const std::vector<Tensor>& reads, const std::function<void()>& work) {
  Part& part = parts_[1];
  ++part.runs;
  for (const Tensor& tensor : reads) part.reads.push_back({tensor, tensor.version()});
  fork_.record();
  {
    const StreamGuard on(stream_);
    fork_.make_wait();
    work();
  }
  if (part.runs < kRunsOfPart) return;
  if (parts_[0].runs > 0) {
    parts_[0].done.make_wait();
    release(parts_[0]);
  }
  end_part(part);
  std::swap(parts_[0], parts_[1]);
}

void SideBranch::join() {
  if (parts_[0].runs + parts_[1].runs == 0) return;
  end_part(parts_[1]);
  parts_[1].done.make_wait();
  for (Part& part : parts_) release(part);
}

void SideBranch::end_part(Part& part) {
  const StreamGuard on(stream_);
  part.done.record();
}

// The captured stream has waited for the part, and may use the memory again.
void SideBranch::release(Part& part) {
  part.runs = 0;
  for (const Read& read : std::exchange(part.reads, {}))
    RINGLET_CHECK(read.tensor.version() == read.version, "[backward] a ", read.tensor.shape(),
                  " tensor was written to while a branch of the step read it");
}

}  // namespace ringlet::autograd
