// Counters of the emulated GPU by op, with modelled times.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "../tests/emulated/emulated.h"
#include "floors.h"
#include "profile.h"

namespace ringlet::bench {

/// "forward_tiles<64>" from a mangled name; others unchanged.
std::string short_name(const std::string& mangled);
/// Whether this program's GPU is the emulated one.
bool is_emulated(Device device);

// An estimate of a launch's time on a published GPU, from counters of the emulated one. It is
// modelled, never measured: data in the L2 cache make it too long, latencies too short.
//
//   launch + max(memory, cache, issue, class of instructions, banks, products)
//     memory    distinct 32-byte sectors read and written / memory bandwidth
//     cache     sectors moved / (64 bytes a clock and multiprocessor)
//     issue     warp instructions / 4 a clock and multiprocessor
//     class     lanes, idle ones included / the class's operations a clock and multiprocessor
//     banks     passes over the banks / 1 a clock and multiprocessor
//     products  flops / the peak of f32 or of the tensor cores
//
// All but memory use min(blocks, multiprocessors) of these, and blocks come in whole waves.
// Latencies, cache misses between launches and ptxas' choice of instructions are not modelled.
//
// Sources: data sheets of V100 SXM2, A100 80 GB SXM, H100 SXM and H200 SXM (multiprocessors,
// bandwidth, peaks without sparsity; the clock follows from the f32 peak), CUDA C++ Programming
// Guide, "Arithmetic Instructions" (operations a clock). No data sheet has the time between two
// launches of a graph: 1 us is an assumption.
struct DataSheet {
  const char* name;
  int multiprocessors;
  double bytes_per_second;
  double f32_flops, tensor_flops;  // of V100 in f16, of the others in bf16
  // Operations a clock and multiprocessor.
  double f32, f64, conversions;

  double clock() const { return f32_flops / (2 * f32 * multiprocessors); }
};
inline constexpr std::array<DataSheet, 4> kDataSheets{{
    {"V100", 80, 0.900e12, 15.7e12, 125e12, 64, 32, 16},
    {"A100", 108, 2.039e12, 19.5e12, 312e12, 64, 32, 16},
    {"H100", 132, 3.35e12, 66.9e12, 989e12, 128, 64, 64},
    {"H200", 132, 4.8e12, 66.9e12, 989e12, 128, 64, 64},
}};

double modelled_seconds(const emulated::LaunchCounters& launch, const DataSheet& gpu);

/// The sums of several launches.
struct CounterSum {
  std::uint64_t launches = 0;
  emulated::LaunchCounters counters;  // registers: the most; resident warps: the fewest
  std::array<double, kDataSheets.size()> seconds{};  // modelled

  void add(const emulated::LaunchCounters& launch);
  void add(const CounterSum& other);
};

/// All calls of an op.
struct OpSum {
  std::uint64_t calls = 0;
  Floor floor;
  std::map<std::string, CounterSum> kernels;  // by short name: "forward_tiles<64>"

  CounterSum sum() const;
  void add(const OpSum& other);
};
using OpSums = std::map<std::string, OpSum>;

/// The launches of each op of `run`. Ops are synchronised.
OpSums count_ops(Device device, const std::function<void()>& run);

/// Markdown: bytes, instructions and modelled times per step.
std::string counters_heading();
std::string counters_row(const std::string& name, const OpSum& op, double steps);
/// By the modelled time on an H200; the last row is the sum.
std::string counters_table(const OpSums& ops, double steps);

/// Prints counters and modelled times of steps with `pairs`; it measures no times.
std::unique_ptr<StepProfile> emulated_profile(Device device, double pairs);

}  // namespace ringlet::bench
