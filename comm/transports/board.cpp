#include "ringlet/comm/transports/board.h"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

// A waiting rank first spins, then yields, then sleeps: ranks may outnumber the cores.
constexpr int kSpins = 100;
constexpr auto kYields = std::chrono::microseconds(50);
// How often a sleeping rank checks the alarm and the deadline.
constexpr Timeout kSlice{20};
// Most bytes of staged copies that wait for their readers.
constexpr std::size_t kStagedBytes = std::size_t{4} << 20;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::shared_ptr<Board> join_board(const Membership& membership) {
  const auto& store = membership.store;
  const int rank = membership.rank, size = membership.size;
  std::shared_ptr<Board> board;
  if (rank == 0) {
    board = Board::make(size);
    store->set(membership.key("board"), board->address());
  } else {
    board = Board::open(membership.get("board", "rank 0's board"), size);
  }
  // Rank 0 may close its descriptor once all ranks have opened it.
  if (store->add(membership.key("opened"), 1) == size)
    store->set(membership.key("all here"), "yes");
  membership.get("all here", "all ranks on the board");
  return board;
}

BoardTransport::BoardTransport(const Membership& membership, std::shared_ptr<Board> board)
    : member_(membership), board_(std::move(board)) {
  board_->seat(member_.rank).process.store(getpid());
}

// Every collective of this rank has ended: a peer that waits for another one waits in vain. If an
// exception ends this rank, the alarm is about to report it as the cause.
BoardTransport::~BoardTransport() {
  if (std::uncaught_exceptions() == 0) board_->seat(member_.rank).left.store(1);
}

void BoardTransport::begin(const Call& call, const Tensor& buffer) {
  member_.check_alarm();
  call_ = call;
  step_ = 0;
  buffer_ = buffer;
  stages_ = must_stage(buffer);
  board_->post(member_.rank, call);
  board_->post(member_.rank, Place{call.sequence, 0});
}

void BoardTransport::send(std::span<const Transmission> sends) {
  if (staged_bytes_ > kStagedBytes) wait_for_readers();
  for (const Transmission& send : sends) publish(send);
}

Views BoardTransport::receive(std::span<const Transmission> receives, bool in_place) {
  views_.clear();
  read_.clear();
  for (const Transmission& receive : receives) {
    views_.push_back(
        receive_one(receive, in_place ? announced_bytes(buffer_) + receive.offset : nullptr));
    read_.push_back(receive.peer);
  }
  board_->seat(member_.rank).reading.store(1);
  member_.check_alarm();  // a failed peer waits for current readers, not for later ones
  return views_;
}

void BoardTransport::release() {
  for (const int peer : read_) board_->lane(peer, member_.rank).read = mark_read(peer);
  board_->seat(member_.rank).reading.store(0);
  for (const int peer : read_) {
    board_->lane(peer, member_.rank).released.fetch_add(1);
    board_->ring(peer);
  }
  ++step_;
  board_->post(member_.rank, Place{call_.sequence, step_});
}

void BoardTransport::publish(const Transmission& send) {
  Lane& lane = board_->lane(member_.rank, send.peer);
  const std::uint64_t published = lane.published.load(std::memory_order_relaxed);
  wait(send.peer, [&] { return published - lane.released.load() < Lane::kSlots; });

  const Tensor source = stages_ ? staged(send) : buffer_;
  const std::size_t offset = stages_ ? 0 : send.offset;
  const Block block = source ? source.storage()->block() : Block{};
  lane.slots[published % Lane::kSlots] = {call_,
                                          step_,
                                          source.bytes() + offset,
                                          block.fd_offset + source.storage_offset() + offset,
                                          send.nbytes,
                                          block.fd,
                                          source ? source.device() : Device{},
                                          mark_ready(send.peer, published % Lane::kSlots)};
  lane.published.store(published + 1);
  board_->ring(send.peer);
}

// A copy that lasts until its readers are done; the same bytes for several peers are copied once.
Tensor BoardTransport::staged(const Transmission& send) {
  if (staged_.empty() || last_staged_.offset != send.offset || last_staged_.nbytes != send.nbytes) {
    Tensor copy = empty({static_cast<std::int64_t>(send.nbytes)}, DType::u8, Device{});
    std::memcpy(copy.mutable_bytes(), buffer_.bytes() + send.offset, send.nbytes);
    staged_.push_back(std::move(copy));
    staged_bytes_ += send.nbytes;
    last_staged_ = send;
  }
  return staged_.back();
}

const std::byte* BoardTransport::receive_one(const Transmission& receive, std::byte* place) {
  Lane& lane = board_->lane(receive.peer, member_.rank);
  const std::uint64_t released = lane.released.load(std::memory_order_relaxed);
  wait(receive.peer, [&] { return lane.published.load() > released; });
  const Message& message = lane.slots[released % Lane::kSlots];
  if (message.call != call_)
    member_.end(describe_mismatch(receive.peer, message.call, member_.rank, call_));
  if (message.step != step_ || message.nbytes != receive.nbytes)
    member_.end(str(describe_step(call_, step_), ": rank ", receive.peer, " sent ", message.nbytes,
                    " bytes in step ", message.step, ", rank ", member_.rank, " expects ",
                    receive.nbytes));
  return receive.nbytes ? view(receive.peer, message, place) : nullptr;
}

void BoardTransport::finish() {
  wait_for_readers();
  board_->post(member_.rank, Place{call_.sequence, Place::kFinished});
}

void BoardTransport::wait_for_readers() {
  for (int peer = 0; peer < member_.size; ++peer) {
    Lane& lane = board_->lane(member_.rank, peer);
    wait(peer, [&] { return lane.released.load() == lane.published.load(); });
  }
  order_behind_readers();
  staged_.clear();
  staged_bytes_ = 0;
}

// On a device: later work may overwrite what the peers read, so it is ordered after their reads.
void BoardTransport::order_behind_readers() {
  if (!buffer_ || buffer_.device().type == DeviceType::cpu) return;
  for (int peer = 0; peer < member_.size; ++peer)
    if (const Event* read = board_->lane(member_.rank, peer).read.exchange(nullptr))
      read->make_wait(buffer_.device());
}

void BoardTransport::abandon() noexcept {
  board_->seat(member_.rank).reading.store(0);
  // A rank that begins to read now sees the alarm first. A stopped process may never continue, but
  // it keeps its view of this memory.
  const auto patience = Clock::now() + std::chrono::seconds(2);
  for (int peer = 0; peer < member_.size; ++peer)
    while (peer != member_.rank && board_->seat(peer).reading.load() && Clock::now() < patience)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  try {
    order_behind_readers();
  } catch (const Error&) {
    // The device has failed as well: it reads nothing any more.
  }
  staged_.clear();
  buffer_ = {};
}

// ---- waiting ------------------------------------------------------------------------------

template <class Ready>
void BoardTransport::wait(int peer, const Ready& ready) {
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return;
    pause();
  }
  const auto start = Clock::now();
  while (Clock::now() - start < kYields) {
    if (ready()) return;
    sched_yield();
  }
  Seat& seat = board_->seat(member_.rank);
  while (true) {
    seat.asleep.store(1);
    const std::uint32_t seen = seat.doorbell.load();
    const bool there = ready();
    if (!there && !member_.alarm->raised()) board_->sleep(member_.rank, seen, kSlice);
    seat.asleep.store(0);
    if (there) return;
    member_.check_alarm();
    check_peer(peer);
    check_not_left(peer, ready);
    if (Clock::now() - start > member_.timeout) timed_out(peer);
  }
}

// A peer in the same collective that made another call may never send the expected message.
void BoardTransport::check_peer(int peer) const {
  Call theirs;
  if (board_->read_posted(peer, theirs) && theirs.sequence == call_.sequence && theirs != call_)
    member_.end(describe_mismatch(peer, theirs, member_.rank, call_));
}

// The message may have been the last that the peer published before it left.
template <class Ready>
void BoardTransport::check_not_left(int peer, const Ready& ready) const {
  if (board_->seat(peer).left.load() && !ready())
    member_.end(describe_left(describe_step(call_, step_), member_.rank, peer));
}

void BoardTransport::timed_out(int peer) const {
  std::vector<Place> where;
  for (int rank = 0; rank < member_.size; ++rank) where.push_back(board_->place(rank));
  member_.end(str(describe_step(call_, step_), ": rank ", member_.rank, " waited ",
                  std::chrono::duration<double>(member_.timeout).count(), " s for rank ", peer,
                  presence(call_.sequence, where)));
}

}  // namespace ringlet::comm
