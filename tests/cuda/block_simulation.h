// Simulates blocks of a kernel that signal each other, on the host. One block runs at a time; at
// each possible interaction a seed chooses the next one. Vector clocks in the signals detect every
// access that no signal orders after an earlier one, in any order of execution. Data must be
// written before it is read, and read before it is overwritten.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ringlet/core/base/error.h"

namespace ringlet::cuda {

class BlockSimulation {
 public:
  static constexpr std::uint64_t kJump = 1'000'000'000;  // nanoseconds, when all blocks are blocked

  explicit BlockSimulation(std::uint64_t seed) : random_(seed) {}

  /// Adds a block; returns its number.
  int add(std::function<void()> body) {
    auto block = std::make_unique<Block>();
    block->body = std::move(body);
    blocks_.push_back(std::move(block));
    return static_cast<int>(blocks_.size()) - 1;
  }

  /// Runs until all have ended; throws the first exception of a block, or the first race.
  void run() {
    for (std::size_t me = 0; me < blocks_.size(); ++me) {
      blocks_[me]->clock.assign(blocks_.size(), 0);
      blocks_[me]->clock[me] = 1;
    }
    for (auto& block : blocks_) block->thread = std::thread([this, b = block.get()] { live(*b); });
    hand_over();
    all_ended_.acquire();
    for (auto& block : blocks_) block->thread.join();
    RINGLET_CHECK(complaint_.empty(), complaint_);
  }

  // ---- called by blocks --------------------------------------------------------------------

  /// Other blocks may run here. This one waits while `blocked`, except for a while after a time
  /// jump.
  void yield(int me, std::function<bool()> blocked = {}) {
    Block& block = at(me);
    if (block.patient > 0) --block.patient, blocked = {};
    block.blocked = std::move(blocked);
    hand_over();
    block.turn.acquire();
    block.blocked = {};
  }

  std::uint64_t now() { return ++time_; }

  void read(int me, const void* address) {
    Place& place = places_[address];
    see_write(me, place, "reads");
    place.reads.resize(blocks_.size());
    place.reads[static_cast<std::size_t>(me)] = own_time(me);
  }
  void write(int me, const void* address) {
    Place& place = places_[address];
    see_write(me, place, "overwrites");
    for (std::size_t other = 0; other < place.reads.size(); ++other)
      if (place.reads[other] > at(me).clock[other])
        complain("block ", me, " overwrites what block ", other, " may still read");
    place.writer = me;
    place.written = own_time(me);
  }

  /// A signal: orders all earlier work of `me` before the work after its acquire.
  void release(int me, const void* flag) {
    Flag& signal = flags_[flag];
    if (signal.writer >= 0 && signal.writer != me)
      complain("blocks ", me, " and ", signal.writer, " raise the same flag");
    signal.writer = me;
    signal.clock = at(me).clock;
    ++at(me).clock[static_cast<std::size_t>(me)];
  }
  void acquire(int me, const void* flag) { join(at(me).clock, flags_[flag].clock); }

  /// Orders later work of `me` after all earlier work of `other`.
  void follow(int me, int other) {
    join(at(me).clock, at(other).clock);
    ++at(other).clock[static_cast<std::size_t>(other)];
  }

 private:
  using Clock = std::vector<std::uint32_t>;  // the known progress of each block
  struct Block {
    std::function<void()> body;
    std::thread thread;
    std::binary_semaphore turn{0};
    std::function<bool()> blocked;
    Clock clock;
    int patient = 0;  // yields that do not block
    bool ended = false;
  };
  struct Place {
    int writer = -1;
    std::uint32_t written = 0;
    Clock reads;
  };
  struct Flag {
    int writer = -1;
    Clock clock;
  };

  Block& at(int block) { return *blocks_[static_cast<std::size_t>(block)]; }
  std::uint32_t own_time(int me) { return at(me).clock[static_cast<std::size_t>(me)]; }

  static void join(Clock& clock, const Clock& other) {
    for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  }

  void see_write(int me, const Place& place, const char* what) {
    if (place.writer >= 0 && place.written > at(me).clock[static_cast<std::size_t>(place.writer)])
      complain("block ", me, ' ', what, " what block ", place.writer, " may still write");
  }

  template <class... Words>
  void complain(const Words&... words) {
    if (complaint_.empty()) complaint_ = str(words...);
  }

  void live(Block& block) {
    block.turn.acquire();
    try {
      block.body();
    } catch (const std::exception& error) {
      complain(error.what());
    }
    block.ended = true;
    hand_over();
  }

  void hand_over() {
    Block* const next = pick();
    (next ? next->turn : all_ended_).release();
  }

  /// Null when all have ended.
  Block* pick() {
    std::vector<Block*> alive, able;
    for (auto& block : blocks_) {
      if (!block->ended) alive.push_back(block.get());
      if (!block->ended && !(block->blocked && block->blocked())) able.push_back(block.get());
    }
    if (alive.empty()) return nullptr;
    if (!able.empty()) return able[random_() % able.size()];
    time_ += kJump;
    Block* one = alive[random_() % alive.size()];
    one->patient = 200;
    return one;
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::binary_semaphore all_ended_{0};
  std::unordered_map<const void*, Place> places_;
  std::unordered_map<const void*, Flag> flags_;
  std::uint64_t time_ = 0;
  std::string complaint_;
};

}  // namespace ringlet::cuda
