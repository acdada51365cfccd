// The common part of the transports thread and shm: messages over a board that say where the bytes
// lie. They differ in how a peer's bytes become readable here.
#pragma once

#include <vector>

#include "ringlet/comm/board.h"
#include "ringlet/comm/transport.h"

namespace ringlet::comm {

class BoardTransport : public Transport {
 public:
  BoardTransport(const Membership& membership, std::shared_ptr<Board> board);
  ~BoardTransport() override;

  void begin(const Call& call, const Tensor& buffer) override;
  void send(std::span<const Transmission> sends) override;
  Views receive(std::span<const Transmission> receives, bool in_place) override;
  void release() override;
  void finish() override;
  void abandon() noexcept override;

 protected:
  /// Where this rank reads the bytes that a peer published. If they must be copied, the copy may go
  /// to `place`, unless null.
  virtual const std::byte* view(int peer, const Message& message, std::byte* place) = 0;
  /// For a buffer on a device: mark_ready() gives an event after the work enqueued before message
  /// `slot` to `peer`; mark_read() gives one after the reads of its messages so far. Null on a CPU.
  virtual const Event* mark_ready(int /*peer*/, std::uint64_t /*slot*/) { return nullptr; }
  virtual const Event* mark_read(int /*peer*/) { return nullptr; }
  /// True if peers can read `buffer` only by a descriptor that it does not have.
  virtual bool must_stage(const Tensor& buffer) const = 0;

  const Tensor& buffer() const { return buffer_; }
  const Membership& member() const { return member_; }
  Board& board() const { return *board_; }

 private:
  void publish(const Transmission& send);
  const std::byte* receive_one(const Transmission& receive, std::byte* place);
  void wait_for_readers();
  void order_behind_readers();
  Tensor staged(const Transmission& send);
  template <class Ready>
  void wait(int peer, const Ready& ready);
  void check_peer(int peer) const;
  template <class Ready>
  void check_not_left(int peer, const Ready& ready) const;
  [[noreturn]] void timed_out(int peer) const;

  Membership member_;
  std::shared_ptr<Board> board_;

  Call call_;
  std::uint64_t step_ = 0;
  Tensor buffer_;
  bool stages_ = false;
  std::vector<Tensor> staged_;  // copies that peers may still read
  std::size_t staged_bytes_ = 0;
  Transmission last_staged_{};
  std::vector<const std::byte*> views_;
  std::vector<int> read_;  // the peers of the views
};

/// Makes the group's board in rank 0 and opens it in its peers.
std::shared_ptr<Board> join_board(const Membership& membership);

}  // namespace ringlet::comm
