#include "launch.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "../runtime/limits.h"
#include "counters.h"
#include "fault.h"

namespace ringlet::emulated {
namespace {

std::uint32_t count(const dim3& shape) { return shape.x * shape.y * shape.z; }

std::string text(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  return '(' + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ')';
}

/// By a launch that may signal others: what had happened before it.
std::unordered_map<OperationId, StreamClock>& signalling_clocks() {
  static auto* const all = new std::unordered_map<OperationId, StreamClock>;
  return *all;
}

/// By a launch that has ended: what had happened before the launches that signalled it.
std::unordered_map<OperationId, StreamClock>& acquired_clocks() {
  static auto* const all = new std::unordered_map<OperationId, StreamClock>;
  return *all;
}

/// A launch that has ended, and what it had acquired.
struct Learner {
  OperationId launch;
  std::shared_ptr<const BlockClock> learned;
};
/// By the operations that had released it.
std::unordered_map<OperationId, std::vector<Learner>>& learners() {
  static auto* const all = new std::unordered_map<OperationId, std::vector<Learner>>;
  return *all;
}

constexpr std::size_t kFrameAlignment = 16;  // words
std::size_t frame_words(const Kernel& kernel) {
  return (kernel.register_words + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
}

constexpr std::int64_t kSlice = 400;  // of a warp where others must get their turn

}  // namespace

OperationOrder& operation_order() {
  static auto* const order = new OperationOrder;
  return *order;
}

Released& released() {
  static auto* const held = new Released;
  return *held;
}

bool Block::done() const {
  return std::all_of(warps.begin(), warps.end(), [](const Warp& warp) { return warp.done(); });
}

std::uint32_t thread_of(const Warp& warp, int lane) {
  return warp.first_thread + static_cast<std::uint32_t>(lane);
}

Actor actor_of(const Warp& warp, int lane) {
  const Block& block = *warp.block;
  return {block.launch->order.operation, block.index, block.barriers,
          static_cast<std::uint16_t>(thread_of(warp, lane)), warp.syncs % kSyncs};
}

std::string plain_name(const std::string& name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string text = status == 0 ? plain : name;
  std::free(plain);
  return text;
}

std::string OperationOrder::describe(OperationId operation) const {
  return plain_name(*names_[operation]) + " on stream " + std::to_string(places_[operation].stream);
}

void fault(const Warp& warp, int lane, const std::string& what) {
  const Block& block = *warp.block;
  const dim3 shape = block.launch->shape.block;
  const std::uint32_t thread = thread_of(warp, lane);
  std::string message =
      what + ": thread " +
      text(thread % shape.x, thread / shape.x % shape.y, thread / shape.x / shape.y) +
      " of block " + text(block.x, block.y, block.z) + ", " + plain_name(warp.kernel->name);
  if (warp.at)
    message += ", " + warp.kernel->names[warp.at->name] + ", " + warp.kernel->place(*warp.at);
  throw Fault(message);
}

void fault_of(const Warp& warp, Mask mask, const std::string& what) {
  fault(warp, mask ? std::countr_zero(mask) : 0, what);
}

Launch::Launch(Kernel& launched, const LaunchShape& with, std::vector<std::byte> values,
               LaunchOrder at, std::uint64_t seed)
    : kernel(launched),
      shape(with),
      parameters(std::move(values)),
      order(std::move(at)),
      random(seed),
      counts(launched.code.size()),
      has_traffic(counts_traffic()),
      threads_(count(with.block)),
      blocks_(count(with.grid)) {
  ++kernel.launches;
  if (kernel.acquires) signalling_clocks()[order.operation] = order.clock;
  if (seed == 0 || blocks_ < 2) return;
  first_ = random() % blocks_;
  do {
    step_ = 1 + random() % (blocks_ - 1);
  } while (std::gcd(step_, std::uint64_t{blocks_}) != 1);
}

Launch::~Launch() {
  for (std::size_t i = 0; i < counts.size(); ++i) kernel.counts[i].add(counts[i]);
  if (!has_traffic) return;
  LaunchCounters made;
  made.kernel = kernel.name;
  made.blocks = blocks_, made.threads = threads_;
  add_counts(made, kernel, counts);
  made.registers = kernel.registers;
  const int blocks = blocks_of_multiprocessor(kernel, threads_, shape.dynamic_bytes);
  made.resident_warps = blocks * static_cast<int>((threads_ + kLanes - 1) / kLanes);
  keep_counters(std::move(made));
}

void Launch::start(Block& block, std::uint32_t index) {
  block.launch = this;
  block.index = index;
  block.x = index % shape.grid.x;
  block.y = index / shape.grid.x % shape.grid.y;
  block.z = index / shape.grid.x / shape.grid.y;
  block.barriers = 0;
  block.all = true, block.any = false;
  block.seen = {};
  block.fresh.clear();
  const std::size_t shared = kernel.shared_bytes + shape.dynamic_bytes;
  block.shared.assign(shared, std::byte{0xff});
  block.shared_shadow.resize(shared / 4 + 1);
  block.shared_written.assign(shared / 8 + 1, 0);
  const std::uint32_t warps = (threads_ + kLanes - 1) / kLanes;
  block.warps.resize(warps);
  const std::size_t frame = frame_words(kernel);
  block.registers.resize(frame * warps + kFrameAlignment);
  auto address = reinterpret_cast<std::uintptr_t>(block.registers.data());
  auto* const frames = reinterpret_cast<std::uint32_t*>((address + 63) / 64 * 64);
  for (std::uint32_t i = 0; i < warps; ++i) {
    Warp& warp = block.warps[i];
    const std::uint32_t left = threads_ - i * kLanes;
    warp.kernel = &kernel;
    warp.block = &block;
    warp.registers = frames + frame * i;
    warp.first_thread = i * kLanes;
    warp.live = left >= kLanes ? kAllLanes : (Mask{1} << left) - 1;
    warp.lanes.assign(1, {0, warp.live, false});
    warp.syncs = 0;
    warp.at_barrier = false;
    warp.copies.clear();
    warp.copy_groups.fill(0);
    warp.local.assign(kernel.local_bytes * kLanes, std::byte{0xff});
  }
}

// Blocks of a cooperative launch are all resident. Other launches run one block at a time, as a GPU
// may.
void Launch::start_blocks() {
  const std::uint32_t most = shape.cooperative ? blocks_ : 1;
  while (resident_.size() < most && next_ < blocks_) {
    resident_.push_back(std::make_unique<Block>());
    start(*resident_.back(), static_cast<std::uint32_t>((first_ + step_ * next_++) % blocks_));
  }
}

void Launch::release_barrier(Block& block) {
  for (const auto& [thread, clock] : block.fresh) block.seen.join(clock);
  block.fresh.clear();
  ++block.barriers;
  for (Warp& warp : block.warps) {
    if (!warp.at_barrier) continue;
    warp.at_barrier = false;
    ++warp.syncs;
    // bar.red.and and .or: variants 1 and 2
    const Instruction& at = kernel.code[warp.lanes.front().at - 1];
    if (at.variant != 0)
      set_predicate(warp, at.out[0], (at.variant == 1 ? block.all : block.any) ? kAllLanes : 0,
                    warp.live);
  }
  block.all = true, block.any = false;
}

// Returns whether a warp ran.
bool Launch::run_warps(Block& block, std::int64_t& instructions) {
  bool ran = false;
  const std::size_t warps = block.warps.size(), from = random() % warps;
  for (std::size_t i = 0; i < warps; ++i) {
    Warp& warp = block.warps[(from + i) % warps];
    if (warp.at_barrier || warp.done()) continue;
    ran = true;
    std::int64_t left = shape.cooperative ? std::min(kSlice, instructions) : instructions;
    const std::int64_t before = left;
    warp.at_barrier = run_warp(warp, left) == Stop::barrier;
    instructions -= before - left + 1;
    const bool all_wait =
        std::all_of(block.warps.begin(), block.warps.end(),
                    [](const Warp& other) { return other.at_barrier || other.done(); });
    if (all_wait) release_barrier(block);
    if (instructions <= 0) break;
  }
  return ran;
}

bool Launch::run(std::int64_t instructions) {
  while (true) {
    start_blocks();
    if (resident_.empty()) {
      end();
      return true;
    }
    while (!resident_.empty() && instructions > 0) {
      Block& block = *resident_[turn_++ % resident_.size()];
      if (!run_warps(block, instructions) && !block.done())
        throw Fault("all warps of a block wait: " + plain_name(kernel.name));
      if (!block.done()) continue;
      learned_.join(block.seen);
      for (const auto& [thread, clock] : block.fresh) learned_.join(clock);
      std::swap(resident_[(turn_ - 1) % resident_.size()], resident_.back());
      if (shape.cooperative || next_ >= blocks_) {
        resident_.pop_back();
      } else {
        start(*resident_.back(), static_cast<std::uint32_t>((first_ + step_ * next_++) % blocks_));
      }
    }
    if (instructions <= 0 && !(resident_.empty() && next_ >= blocks_)) return false;
  }
}

// A stream's later operations know what the launch has acquired, and what came before that.
void Launch::end() {
  if (learned_.empty()) return;
  const auto learned = std::make_shared<const BlockClock>(std::move(learned_));
  StreamClock& before = acquired_clocks()[order.operation];
  learned->any_operation([&](OperationId operation) {
    if (operation == order.operation) return false;
    learners()[operation].push_back({order.operation, learned});
    join(before, signalling_clocks()[operation]);
    return false;
  });
}

StreamClock acquired_by(OperationId launch) {
  const auto found = acquired_clocks().find(launch);
  return found == acquired_clocks().end() ? StreamClock() : found->second;
}

bool is_learned(const Stamp& earlier, const StreamClock& clock) {
  const auto found = learners().find(earlier.operation);
  if (found == learners().end()) return false;
  return std::ranges::any_of(found->second, [&](const Learner& learner) {
    return operation_order().is_before(learner.launch, clock) &&
           (earlier.readers >= Readers::of_grid ||
            learner.learned->has_seen({earlier.operation, earlier.block}, earlier.barriers,
                                      earlier.thread));
  });
}

// The block itself, or what its launch's stream had done before.
bool Launch::knows(const BlockClock& seen, const Stamp& earlier) const {
  return seen.has_seen({earlier.operation, earlier.block}, earlier.barriers, earlier.thread) ||
         seen.any_operation([&](OperationId operation) {
           const auto found = signalling_clocks().find(operation);
           return operation != order.operation && found != signalling_clocks().end() &&
                  operation_order().is_before(earlier.operation, found->second);
         });
}

bool Launch::decide(const Stamp& earlier, const Actor& now) const {
  if (earlier.operation != order.operation &&
      operation_order().is_before(earlier.operation, order.clock)) {
    remember(earlier.operation);
    return true;
  }
  if (is_learned(earlier, order.clock)) return true;
  if (!kernel.acquires) return false;
  for (const auto& resident : resident_) {
    if (resident->index != now.block) continue;
    if (earlier.operation == order.operation && earlier.block == now.block) return true;
    if (knows(resident->seen, earlier)) return true;
    const auto fresh = resident->fresh.find(now.thread);
    return fresh != resident->fresh.end() && knows(fresh->second, earlier);
  }
  return false;
}

}  // namespace ringlet::emulated
