// The common part of the transports thread and shm: peers read a rank's buffer where it lies. The
// board is memory that all ranks of a host share. Each rank posts there where its buffer is; a
// channel from each rank to each peer has the sends. Small sends, and those from memory that peers
// cannot read, are copied to the board, and the sender does not wait for their readers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/comm/transports/mapping.h"
#include "ringlet/core/device/stream.h"

namespace ringlet::comm {

/// A send, in one cache line.
struct alignas(64) Message {
  std::atomic<std::uint64_t> number;  // of the channel's sends, counted from 1; written last
  Call call;
  const StreamEvent* ready;  // on a device: after it the bytes are valid
  std::uint64_t offset;      // of the bytes in the sender's buffer, or in its stage
  bool staged;
  std::int32_t gpu;  // index of the sender's; -1: a CPU
};
static_assert(sizeof(Message) == 64);

/// One rank's sends to one peer. A collective's n-th send is the peer's n-th receive.
struct Channel {
  static constexpr std::uint64_t kSlots = 32;       // most sends that are not read yet
  std::array<Message, kSlots> messages;             // by the sender
  alignas(64) std::atomic<std::uint64_t> released;  // by the receiver: how many it has read
  std::atomic<const StreamEvent*>
      read;  // on a device: the receiver's, recorded after its last read

  Message& message(std::uint64_t number) { return messages[number % kSlots]; }
};

/// Where a buffer lies.
struct Location {
  const std::byte* address;  // in its rank's memory
  std::uint64_t offset;      // the same position in its process's descriptor `fd`
  std::int32_t fd;           // -1: none
  Device device;
};

// Words that a rank writes in every collective share no cache line with those that its peers read.
struct RankState {
  // A waiting rank sets `asleep`, checks again, and sleeps on `doorbell` as a futex.
  alignas(64) std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint32_t> doorbell;
  std::atomic<Left> left;  // set when this rank's group ends; by_error: its buffer has ended, too
  std::atomic<std::int32_t> process;
  alignas(64) std::atomic<std::uint32_t> reading;  // 1 while this rank reads its peers' bytes
  std::atomic<int> processor;                      // on which it began the collective
  std::atomic<std::uint64_t> progress;             // Progress::word(), for the messages of timeouts
  // The collective that this rank is in; the first word, its sequence, is 0 during a change.
  std::array<std::atomic<std::uint64_t>, sizeof(Call) / sizeof(std::uint64_t)> call;
  alignas(64) Location buffer;  // valid until the sends of this collective are read
};

/// Ranks may be threads or processes: a board is a memfd of rank 0 that all of them map.
class Board {
 public:
  static constexpr std::size_t kStage = 4 << 20;
  /// Returns when all ranks have the board. Ranks in one process share one.
  static std::shared_ptr<Board> join(const Membership& member);
  /// Maps memory of rank 0: memory_size(member.size) bytes, initially zero.
  Board(const Membership& member, int process, int fd);

  RankState& state(int rank) const { return states_[rank]; }
  Channel& channel(int from, int to) const { return channels_[from * size_ + to]; }
  /// Memory for copies of the bytes that `rank` sends.
  std::byte* stage(int rank) const { return stages_ + rank * kStage; }

  /// Whether `rank` was the only one on its processor.
  bool has_own_processor(int rank) const;
  /// Keeps an object that channels point to while any rank of this process has the board.
  void keep(std::shared_ptr<const void> object) const;
  /// See Transport::shared.
  std::shared_ptr<void> shared(const std::function<std::shared_ptr<void>()>& make) const;
  /// Records the collective that `rank` is in.
  void post(int rank, const Call& call) const;
  /// The recorded call; sequence 0 while `rank` changes it.
  Call posted(int rank) const;

  /// Wakes `rank` if it sleeps.
  void ring(int rank) const;
  /// Sleeps until the doorbell of `rank` rings after it was `seen`, at most for `slice`.
  void sleep(int rank, std::uint32_t seen, Timeout slice) const;

 private:
  static std::size_t memory_size(int size);

  int size_;
  Mapping memory_;
  mutable std::mutex kept_mutex_;
  mutable std::vector<std::shared_ptr<const void>> kept_;
  mutable std::shared_ptr<void> shared_;
  RankState* states_;
  Channel* channels_;
  std::byte* stages_;
};

class BoardTransport : public Transport {
 public:
  explicit BoardTransport(const Membership& member);
  ~BoardTransport() override;

  void begin(const Call& call, const Tensor& buffer) override;
  Views exchange(std::span<const Transmission> sends, std::span<const Transmission> receives,
                 bool in_place) override;
  void release() override;
  void finish() override;
  void abandon() noexcept override;
  std::vector<Device> devices() const override { return devices_; }
  bool has_sent(int peer) const override {
    Channel& channel = board_->channel(peer, member_.rank);
    const std::uint64_t next = channel.released.load() + 1;
    return channel.message(next).number.load() == next;
  }
  std::size_t copies_sends() const override { return kMostCopied; }
  std::shared_ptr<void> shared(const std::function<std::shared_ptr<void>()>& make) override {
    return board_->shared(make);
  }

 protected:
  /// Whether peers can read the memory of a tensor on a CPU.
  virtual bool is_readable(const Tensor& /*buffer*/) const { return true; }
  /// Where this rank reads the bytes that a peer has `sent` of its buffer, valid after `ready`,
  /// unless null. If they must be copied, the copy may go to `place`, unless null. Here they lie in
  /// this process.
  virtual const std::byte* view(const Transmission& sent, const Location& buffer,
                                const StreamEvent* /*ready*/, std::byte* /*place*/) {
    return buffer.address + sent.offset;
  }
  /// For a buffer on a device: mark_ready() gives an event after the work enqueued before a step's
  /// sends, mark_read() one after its reads. Null on a CPU.
  virtual const StreamEvent* mark_ready() { return nullptr; }
  virtual const StreamEvent* mark_read() { return nullptr; }
  /// Orders later work on the buffer's device after the peers' reads of it.
  virtual void order_after_readers() {}

  const Call& call() const { return call_; }
  const Tensor& buffer() const { return buffer_; }
  const Membership& member() const { return member_; }
  Board& board() const { return *board_; }

 private:
  static constexpr std::size_t kMostCopied = 256 << 10;  // of memory that peers can read
  /// The sends to a peer, by their numbers.
  struct Sent {
    std::uint64_t last = 0, last_staged = 0, last_in_buffer = 0;
    bool heard = false;  // from the peer, in this collective
  };

  void send(std::span<const Transmission> sends);
  void reserve_stage(std::size_t nbytes);
  void set_location(const Tensor& buffer);
  void enter(std::uint64_t step);
  void check_views();
  void wait_for_release(int peer, std::uint64_t number);
  template <class Ready>
  void wait(int peer, const Ready& ready);
  template <class Ready>
  void check(int peer, const Ready& ready) const;
  [[noreturn]] void time_out(int peer) const;

  Membership member_;
  std::shared_ptr<Board> board_;
  RankState& mine_;

  Call call_;
  std::uint64_t step_ = 0;
  Tensor buffer_;
  Tensor copy_;  // of what is sent from unreadable memory, if the stage is too small for a step
  std::vector<Sent> sent_;       // by peer
  std::vector<Device> devices_;  // by rank
  std::size_t stage_end_ = 0;    // of the copies that peers may be reading
  std::vector<const std::byte*> views_;
  std::vector<int> read_;  // the peers of the views
};

}  // namespace ringlet::comm
