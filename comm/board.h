// The board: shared memory in which the ranks of one host exchange messages. A lane from each rank
// to each peer carries short messages that say where bytes lie; one seat per rank holds its state.
// Ranks may be threads or processes: a board is a memfd that any of them opens.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ringlet/comm/call.h"
#include "ringlet/core/stream.h"

namespace ringlet::comm {

/// Where the bytes of step `step` lie. Valid until it is released.
struct Message {
  Call call;
  std::uint64_t step;
  const std::byte* address;  // in the sender's memory
  std::uint64_t offset;      // the same position in the sender's descriptor `fd`
  std::uint64_t nbytes;
  std::int32_t fd;  // -1: none
  Device device;
  const Event* ready;  // on a device: the sender's, after which the bytes are valid
};

/// Messages from one rank to one peer, in order. Both counters only grow.
struct Lane {
  static constexpr std::uint64_t kSlots = 8;
  alignas(64) std::atomic<std::uint64_t> published;  // by the sender
  alignas(64) std::atomic<std::uint64_t> released;   // by the receiver: how many it has read
  std::atomic<const Event*> read;  // on a device: the receiver's, recorded after its last read
  alignas(64) std::array<Message, kSlots> slots;
};

struct Seat {
  // A waiting rank sets `asleep`, checks again, and sleeps on `doorbell` as a futex.
  alignas(64) std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> reading;  // 1 while this rank reads its peers' bytes
  std::atomic<std::uint32_t> left;     // 1 once this rank's group has been destroyed
  std::atomic<std::int32_t> process;
  // The collective that this rank is in; `sequence` is 0 while the words are being written.
  std::atomic<std::uint64_t> sequence;
  std::array<std::atomic<std::uint64_t>, sizeof(Call) / sizeof(std::uint64_t)> words;
  std::atomic<std::uint64_t> place;  // a Place's word, for the messages of timeouts
};

class Board {
 public:
  static std::shared_ptr<Board> make(int size);
  /// The board that make() created with this address. Ranks in one process share one mapping.
  static std::shared_ptr<Board> open(const std::string& address, int size);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// For open(): "PROCESS FD", valid while the maker's descriptor is open.
  std::string address() const { return address_; }
  Seat& seat(int rank) const { return seats_[rank]; }
  Lane& lane(int from, int to) const { return lanes_[from * size_ + to]; }

  /// Keeps an object that this process's messages point to while any rank here has the board.
  void keep(std::shared_ptr<const void> object) const;
  /// Records which collective `rank` is in.
  void post(int rank, const Call& call) const;
  /// Records how far `rank` is in it.
  void post(int rank, const Place& place) const {
    seat(rank).place.store(place.word(), std::memory_order_relaxed);
  }
  Place place(int rank) const { return Place::of_word(seat(rank).place.load()); }
  /// False while `rank` writes it.
  bool read_posted(int rank, Call& call) const;

  /// Wakes `rank` if it sleeps.
  void ring(int rank) const;
  /// Sleeps until the doorbell of `rank` rings after it was `seen`, at most for `slice`.
  void sleep(int rank, std::uint32_t seen, Timeout slice) const;

 private:
  Board(int fd, int size, std::string address);
  int fd_;
  int size_;
  std::string address_;
  std::size_t nbytes_;
  mutable std::mutex kept_mutex_;
  mutable std::vector<std::shared_ptr<const void>> kept_;
  Seat* seats_;
  Lane* lanes_;
};

/// Opens descriptor `fd` of a process of this host, so that its memory can be mapped.
int open_descriptor(int process, int fd);

}  // namespace ringlet::comm
