// Counters of the emulated GPU by op, with modelled times.
#pragma once

#include <array>
#include <map>
#include <string>

#include "floors.h"
#include "modelled_time.h"
#include "ringlet/core/device/kernel.h"

namespace ringlet::bench {

/// "forward_tiles<64>" from a mangled name; others unchanged.
std::string short_name(const std::string& mangled);
/// Whether this program's GPU is the emulated one.
bool is_emulated(Device device);

/// The sums of several launches.
struct CounterSum {
  std::uint64_t launches = 0;
  emulated::LaunchCounters counters;  // registers: the most; resident warps: the fewest
  std::array<double, kDataSheets.size()> seconds{};  // modelled

  void add(const emulated::LaunchCounters& launch);
  void add(const CounterSum& other);
  double idle_lanes() const;      // a share of all
  double bank_conflicts() const;  // a share of all passes
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

/// Counts the launches of each op while it lives. Ops are synchronised.
class OpCounters final : public KernelObserver {
 public:
  explicit OpCounters(Device device);
  ~OpCounters() override;
  OpCounters(const OpCounters&) = delete;
  OpCounters& operator=(const OpCounters&) = delete;

  void before(const char* name, const void* args, Device device) override;
  void after(const char* name, const void* args, Device device) override;
  const OpSums& ops() const { return ops_; }

 private:
  Device device_;
  int depth_ = 0;
  OpSums ops_;
};

/// Markdown: bytes, instructions and modelled times per step.
std::string counters_heading();
std::string counters_row(const std::string& name, const OpSum& op, double steps);
/// By the modelled time on an H200; the last row is the sum.
std::string counters_table(const OpSums& ops, double steps);

}  // namespace ringlet::bench
