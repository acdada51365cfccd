#include "ringlet/cuda/graph.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/cuda/check.h"

namespace ringlet::cuda {

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  RINGLET_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

BesideCapture::BesideCapture() { RINGLET_CUDA(cudaThreadExchangeStreamCaptureMode(&mode_)); }
BesideCapture::~BesideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

namespace {

using Rounds = std::vector<std::shared_ptr<LaunchRound>>;
thread_local Rounds captured_rounds;  // of this thread's capture

struct Destroy {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t graph) const {
    const LaunchGate::Call call;
    cudaGraphExecDestroy(graph);
  }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

class CapturedGraph final : public DeviceGraph {
 public:
  CapturedGraph(Device device, cudaGraph_t graph, CachingAllocator& allocator)
      : device_(device),
        stream_(current_stream(device)),
        rounds_(std::exchange(captured_rounds, {})),
        allocator_(allocator) {
    const DeviceGuard guard(device);
    RINGLET_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes_));
    exec_ = instantiated(graph);
    allocator_.add_graph();
  }
  ~CapturedGraph() override { allocator_.remove_graph(); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Error on a stream other than that of the capture: concurrent graphs would share memory.
  void replay() override {
    RINGLET_CHECK(current_stream(device_) == stream_,
                  "[graph] captured on another stream than it is to run on");
    check_not_capturing("a replay");
    const DeviceGuard guard(device_);
    std::optional<LaunchGate::Launch> launch;
    if (!rounds_.empty()) launch.emplace(rounds_);
    RINGLET_CUDA(cudaGraphLaunch(exec_.get(), stream_));
  }
  std::size_t nodes() const override { return nodes_; }

 private:
  Owned<cudaGraphExec_t> instantiated(cudaGraph_t graph) const {
    cudaGraphExec_t exec = nullptr;
    const LaunchGate::Call call;
    // Nodes have the priorities of the streams that they were captured on, not the priority of the
    // launch's stream.
    RINGLET_CUDA(
        cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagUseNodePriority));
    Owned<cudaGraphExec_t> owned(exec);
    RINGLET_CUDA(cudaGraphUpload(exec, stream_));  // or the first launch would allocate its memory
    return owned;
  }

  Device device_;
  cudaStream_t stream_;
  std::size_t nodes_ = 0;
  Rounds rounds_;
  Owned<cudaGraphExec_t> exec_;  // a launch in flight completes after its end
  CachingAllocator& allocator_;
};

}  // namespace

void capture_round(const std::shared_ptr<LaunchRound>& round) {
  if (std::ranges::find(captured_rounds, round) == captured_rounds.end())
    captured_rounds.push_back(round);
}

void release_after_use(Device device, CachingAllocator& allocator, const MemoryBlock& block,
                       cudaStream_t user) {
  try {
    const auto owner = static_cast<cudaStream_t>(const_cast<void*>(allocator.stream_of(block)));
    if (user != owner) {
      const Event used(device);
      used.record(user);
      used.make_wait(owner);
    }
  } catch (const Error&) {
  }
  try {
    allocator.release(block);
  } catch (const Error&) {
  }
}

DeviceCapture::DeviceCapture(Device device, CachingAllocator& allocator)
    : device_(device), allocator_(allocator), stream_(current_stream(device)) {
  const DeviceGuard guard(device);
  captured_rounds.clear();
  allocator.begin_capture(stream_);
  try {
    RINGLET_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  } catch (const Error&) {
    allocator.end_capture();
    throw;
  }
}

DeviceCapture::~DeviceCapture() {
  if (captures_) {
    cudaGraph_t graph = nullptr;  // stays null if the capture is invalid
    cudaStreamEndCapture(stream_, &graph);
    if (graph) cudaGraphDestroy(graph);
    static_cast<void>(cudaGetLastError());  // otherwise the next check would report it
  }
  end_blocks();
  for (const Use& use : later_) release_after_use(device_, allocator_, use.block, use.user);
}

std::size_t DeviceCapture::end_blocks() {
  return std::exchange(takes_blocks_, false) ? allocator_.end_capture() : 0;
}

std::unique_ptr<DeviceGraph> DeviceCapture::finish() {
  captures_ = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &graph);
  const Owned<cudaGraph_t> owned(graph);
  RINGLET_CUDA(status);
  // First the graph, which keeps the memory, then end the allocator's capture.
  auto captured = std::make_unique<CapturedGraph>(device_, graph, allocator_);
  const std::size_t left = end_blocks();
  RINGLET_CHECK(left == 0, "[graph] ", left, " bytes of tensors that were made in a capture on ",
                device_, " outlive it, where the next one would write over them");
  return captured;
}

}  // namespace ringlet::cuda
