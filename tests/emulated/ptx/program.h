// A decoded kernel: instructions with resolved operands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../emulated.h"
#include "source.h"

namespace ringlet::emulated {

struct Warp;

using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// One bit per lane.
using Mask = std::uint32_t;
inline constexpr int kLanes = 32;
inline constexpr Mask kAllLanes = ~Mask{0};

enum class Space : std::uint8_t { generic, global, shared, local, parameter };
/// The scope of a strong access. Weak accesses order nothing.
enum class Scope : std::uint8_t { weak, block, gpu, system };

/// The memory access of a load, store or atomic.
struct Access {
  Space space = Space::generic;
  Scope scope = Scope::weak;
  bool acquires = false, releases = false;
  bool is_constant = false;   // ld.nc: through a cache that stores of this launch do not reach
  std::uint8_t bytes = 0;     // of an element
  std::uint8_t elements = 1;  // v2, v4
  bool sign_extends = false;
  bool wide_address = true;  // 64-bit register
  bool of_warp = false;      // ldmatrix: other lanes receive the bytes
};

/// An operand: the first word of a register, or -1 - word of a constant.
using Operand = std::int32_t;
inline constexpr Operand kNone = INT32_MIN;

struct Instruction {
  using Run = void (*)(Warp&, const Instruction&, Mask);
  enum class Kind : std::uint8_t { plain, branch, exit, barrier, converge };

  Run run = nullptr;
  Kind kind = Kind::plain;
  bool negated = false;      // of the guard
  bool flag = false;         // an operation's variant: a negated vote
  std::uint8_t variant = 0;  // an operation's, such as the mode of a shuffle
  Operand guard = kNone;
  Operand members = kNone;  // the member mask of .sync instructions
  std::array<Operand, 4> out{kNone, kNone, kNone, kNone};
  std::array<Operand, 10> in{kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  std::array<std::uint8_t, 10> in_bytes{};  // of the registers behind stores
  std::array<std::uint8_t, 4> out_bytes{};
  Access access{};
  std::int64_t offset = 0;         // of an address
  std::int64_t source_offset = 0;  // of the address that cp.async reads
  std::uint32_t target = 0;        // of a branch
  SourceLine line{};
  std::uint32_t name = 0;  // in Kernel::names
};

struct Parameter {
  std::size_t offset = 0, bytes = 0;
};

/// The executions of one instruction over all launches.
struct Count {
  std::uint64_t warps = 0, lanes = 0;
  // Requested bytes of global memory, 32-byte sectors moved, their minimum, and the sectors without
  // repetition in a launch.
  std::uint64_t bytes = 0, sectors = 0, least = 0, touched = 0;
  std::uint64_t passes = 0, least_passes = 0;  // over the banks of shared memory

  void add(const Count& other) {
    warps += other.warps, lanes += other.lanes;
    bytes += other.bytes, sectors += other.sectors;
    least += other.least, touched += other.touched;
    passes += other.passes, least_passes += other.least_passes;
  }
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::size_t parameter_bytes = 0;
  std::uint32_t most_threads = 1024;
  std::vector<Instruction> code;
  std::vector<Count> counts;  // one per instruction
  std::vector<std::string> names;
  std::vector<InstructionClass> classes;  // of each name
  std::vector<std::uint32_t> constants;   // 32 lanes each
  std::size_t register_words = 0, shared_bytes = 0, local_bytes = 0;
  std::vector<std::string> files;
  bool acquires = false;  // has loads or atomics that do
  int architecture = 0;   // of its PTX: 90
  std::uint64_t launches = 0;
  int registers = 0;  // of a thread, from ptxas; 0: not known

  std::string place(const Instruction& at) const {
    const auto file = at.line.file < files.size() ? files[at.line.file] : std::string("?");
    return file + ':' + std::to_string(at.line.line);
  }
};

}  // namespace ringlet::emulated
