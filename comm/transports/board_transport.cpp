#include "ringlet/comm/transports/board.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

// A waiting rank first spins, then yields, then sleeps: ranks may outnumber the cores.
constexpr int kSpins = 100;
constexpr auto kYields = std::chrono::microseconds(50);
// How often a sleeping rank checks the alarm and the deadline.
constexpr Timeout kSlice{20};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

BoardTransport::BoardTransport(const Membership& member)
    : member_(member), board_(Board::join(member)), mine_(board_->state(member.rank)) {
  mine_.process.store(getpid());
}

// Every collective of this rank has ended: a peer that waits for another one waits in vain.
BoardTransport::~BoardTransport() {
  if (mine_.left.load() == Left::no) mine_.left.store(member_.left());
}

void BoardTransport::begin(const Call& call, const Tensor& buffer) {
  member_.check_alarm();
  call_ = call;
  buffer_ = buffer;
  const MemoryBlock& block = buffer.storage()->block();
  mine_.buffer = {buffer.bytes(), block.fd_offset + buffer.storage_offset(), block.fd,
                  buffer.device()};
  board_->post(member_.rank, call);
  enter(0);
}

void BoardTransport::enter(std::uint64_t step) {
  step_ = step;
  mine_.progress.store(Progress{call_.sequence, step}.word(), std::memory_order_relaxed);
}

void BoardTransport::send(const Transmission& send, const StreamEvent* ready) {
  const int peer = send.peer;
  Channel& channel = board_->channel(member_.rank, peer);
  const std::uint64_t published = channel.published.load(std::memory_order_relaxed);
  wait(peer, [&] { return published - channel.released.load() < Channel::kSlots; });
  channel.ready[published % Channel::kSlots] = ready;
  channel.offset[published % Channel::kSlots] = send.offset;
  channel.published.store(published + 1);
  board_->ring(peer);
}

Views BoardTransport::exchange(std::span<const Transmission> sends,
                               std::span<const Transmission> receives, bool in_place) {
  const StreamEvent* ready = sends.empty() ? nullptr : mark_ready();
  for (const Transmission& one : sends) send(one, ready);
  views_.clear();
  read_.clear();
  for (const Transmission& receive : receives) {
    Channel& channel = board_->channel(receive.peer, member_.rank);
    const auto earlier = static_cast<std::uint64_t>(std::ranges::count(read_, receive.peer));
    const std::uint64_t next = channel.released.load(std::memory_order_relaxed) + earlier;
    wait(receive.peer, [&] { return channel.published.load() > next; });
    // The peer stays in its collective until its sends are read.
    member_.compare(receive.peer, board_->posted(receive.peer), call_);
    std::byte* place = in_place ? announced_bytes(buffer_) + receive.offset : nullptr;
    const std::size_t slot = next % Channel::kSlots;
    const Transmission sent{receive.peer, channel.offset[slot], receive.nbytes};
    views_.push_back(receive.nbytes == 0 ? nullptr
                                         : view(sent, board_->state(receive.peer).buffer,
                                                channel.ready[slot], place));
    read_.push_back(receive.peer);
  }
  mine_.reading.store(1);
  check_views();  // a failed peer waits for current readers, not for later ones
  return views_;
}

// A failed peer uses its buffer again, perhaps before the alarm arrives here.
void BoardTransport::check_views() {
  for (const int peer : read_)
    if (board_->state(peer).left.load() == Left::by_error) {
      mine_.reading.store(0);
      member_.end_left(describe_step(call_, step_), peer, Left::by_error);
    }
}

void BoardTransport::release() {
  check_views();  // it may not have waited for a reader that was stopped
  const StreamEvent* read = mark_read();
  for (const int peer : read_) board_->channel(peer, member_.rank).read = read;
  mine_.reading.store(0);
  for (const int peer : read_) {
    board_->channel(peer, member_.rank).released.fetch_add(1);
    board_->ring(peer);
  }
  enter(step_ + 1);
}

void BoardTransport::finish() {
  for (int peer = 0; peer < member_.size; ++peer) {
    Channel& channel = board_->channel(member_.rank, peer);
    wait(peer, [&] { return channel.released.load() == channel.published.load(); });
  }
  order_after_readers();
  buffer_ = {};
  enter(Progress::kFinished);
}

// On a device: later work may overwrite what the peers read, so it is ordered after their reads.
void BoardTransport::order_after_readers() {
  if (!buffer_ || buffer_.device().type == DeviceType::cpu) return;
  for (int peer = 0; peer < member_.size; ++peer)
    if (const StreamEvent* read = board_->channel(member_.rank, peer).read.exchange(nullptr))
      read->make_wait(buffer_.device());
}

void BoardTransport::abandon() noexcept {
  mine_.reading.store(0);
  mine_.left.store(Left::by_error);
  // A rank that begins to read now sees this first. A stopped process may never continue.
  const auto patience = Clock::now() + std::chrono::seconds(2);
  for (int peer = 0; peer < member_.size; ++peer)
    while (peer != member_.rank && board_->state(peer).reading.load() && Clock::now() < patience)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  try {
    order_after_readers();
  } catch (const Error&) {
    // The device has failed as well: it reads nothing any more.
  }
  buffer_ = {};
}

template <class Ready>
void BoardTransport::wait(int peer, const Ready& ready) {
  for (int i = 0; i < kSpins; ++i, pause())
    if (ready()) return;
  const auto start = Clock::now();
  while (Clock::now() - start < kYields) {
    if (ready()) return;
    sched_yield();
  }
  while (true) {
    mine_.asleep.store(1);
    const std::uint32_t seen = mine_.doorbell.load();
    const bool there = ready();
    if (!there && !member_.store->raised()) board_->sleep(member_.rank, seen, kSlice);
    mine_.asleep.store(0);
    if (there) return;
    check(peer, ready);
    if (Clock::now() - start > member_.timeout) time_out(peer);
  }
}

// Ends a wait in vain.
template <class Ready>
void BoardTransport::check(int peer, const Ready& ready) const {
  member_.check_alarm();
  // A peer in the same collective that made another call may never send the expected message.
  const Call theirs = board_->posted(peer);
  if (theirs.sequence == call_.sequence) member_.compare(peer, theirs, call_);
  // The message may have been the last that the peer published before it left.
  if (const Left left = board_->state(peer).left.load(); left != Left::no && !ready())
    member_.end_left(describe_step(call_, step_), peer, left);
}

void BoardTransport::time_out(int peer) const {
  std::vector<Progress> progress;
  for (int rank = 0; rank < member_.size; ++rank)
    progress.push_back(Progress::of_word(board_->state(rank).progress.load()));
  member_.time_out(call_, step_, peer, progress);
}

}  // namespace ringlet::comm
