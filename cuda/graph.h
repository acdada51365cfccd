// Graphs: work enqueued on a stream during capture does not run; the graph can be launched many
// times. Graphs never run on several streams concurrently: graphs of a device share memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

/// Whether `stream` is being captured.
bool is_capturing(cudaStream_t stream);

/// The captured nodes and their order.
class Graph {
 public:
  /// Owns `graph`, which may be null.
  explicit Graph(cudaGraph_t graph) : graph_(graph) {}
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  cudaGraph_t get() const { return graph_; }
  std::size_t nodes() const;

 private:
  cudaGraph_t graph_;
};

/// An executable graph of a device; a launch in flight completes after the destructor.
class GraphExec {
 public:
  GraphExec(Device device, const Graph& graph);
  ~GraphExec();
  GraphExec(GraphExec&& other) noexcept;
  GraphExec& operator=(GraphExec&& other) noexcept;

  /// Allocates the device's memory for it, which the first launch would otherwise do.
  void upload(cudaStream_t stream) const;
  void launch(cudaStream_t stream) const;

 private:
  Device device_;
  cudaGraphExec_t exec_ = nullptr;
};

/// Captures, during its lifetime, what this thread enqueues on the stream that was the device's
/// current one in the constructor. Other threads must not use that stream, and this thread must not
/// synchronise with the device. Both are errors, of the call or of finish().
class Capture {
 public:
  explicit Capture(Device device);
  /// Discards the capture, unless finish() was called.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Graph finish();

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

/// For a scope, allows this thread calls that are unsafe during a capture and do not touch its
/// stream, e.g. cudaMalloc.
class BesideCapture {
 public:
  BesideCapture();
  ~BesideCapture();
  BesideCapture(const BesideCapture&) = delete;
  BesideCapture& operator=(const BesideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace ringlet::cuda
