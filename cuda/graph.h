// Graphs: what a stream is given while it is captured does not run, but can be given to the device
// again and again as one. Never under several streams at once: graphs of a device share memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

/// Whether what `stream` is given is captured.
bool is_capturing(cudaStream_t stream);

/// Nodes and their order, as captured.
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

/// A graph made ready to run on a device; one under way when this goes runs to its end.
class GraphExec {
 public:
  GraphExec(Device device, const Graph& graph);
  ~GraphExec();
  GraphExec(GraphExec&& other) noexcept;
  GraphExec& operator=(GraphExec&& other) noexcept;

  /// Takes the device's memory for it, which the first launch would else do.
  void upload(cudaStream_t stream) const;
  void launch(cudaStream_t stream) const;

 private:
  Device device_;
  cudaGraphExec_t exec_ = nullptr;
};

/// While it lives, what this thread gives the stream that was the device's current one at the start
/// is captured. Other threads must not use that stream, and this one must not wait for the device;
/// calls of either are errors, of this or of finish().
class Capture {
 public:
  explicit Capture(Device device);
  /// Forgets what was captured, unless finish() has it.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Graph finish();

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

/// For a scope, this thread may call beside a capture what does not touch its stream: cudaMalloc.
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
