// Helpers shared by the runtime's functions.
#pragma once

#include <thread>

#include "streams.h"

namespace ringlet::emulated {

/// Holds the runtime's lock for one call.
class Call {
 public:
  Call() : lock_(Streams::instance().mutex()) {}
  Streams& streams() const { return Streams::instance(); }
  Streams::Lock& lock() { return lock_; }

 private:
  Streams::Lock lock_;
};

/// With the state that CUDA's calls report.
struct CudaCapture : streams::Capture {
  unsigned long long number = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread = std::this_thread::get_id();
  cudaError_t broken = cudaSuccess;
};
inline CudaCapture* capture_of(const Stream* stream) {
  return static_cast<CudaCapture*>(stream->capture.get());
}

/// An operation that completes in one step.
StreamOperation at_once(const std::string& name, std::function<void(const LaunchOrder&)> work,
                        const PinnedBytes& pinned = {});

}  // namespace ringlet::emulated
