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

// A waiting rank spins, then sleeps: waking it takes as long as many spins. If ranks share
// processors, it yields its own instead.
constexpr int kSpins = 100;
constexpr std::chrono::microseconds kLongSpins{100}, kYields{50};
// How often a sleeping rank checks the alarm and the deadline.
constexpr Timeout kSlice{20};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

BoardTransport::BoardTransport(const Membership& member)
    : member_(member),
      board_(Board::join(member)),
      mine_(board_->state(member.rank)),
      sent_(static_cast<std::size_t>(member.size)),
      devices_(static_cast<std::size_t>(member.size)) {
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
  devices_[static_cast<std::size_t>(member_.rank)] = buffer.device();
  for (Sent& sent : sent_) sent.heard = false;
  set_location(buffer);
  mine_.processor.store(sched_getcpu(), std::memory_order_relaxed);
  board_->post(member_.rank, call);
  enter(0);
}

void BoardTransport::set_location(const Tensor& buffer) {
  const MemoryBlock& block = buffer.storage()->block();
  mine_.buffer = {buffer.bytes(), block.fd_offset + buffer.storage_offset(), block.fd,
                  buffer.device()};
}

void BoardTransport::enter(std::uint64_t step) {
  step_ = step;
  mine_.progress.store(Progress{call_.sequence, step}.word(), std::memory_order_relaxed);
}

Views BoardTransport::exchange(std::span<const Transmission> sends,
                               std::span<const Transmission> receives, bool in_place) {
  send(sends);
  views_.clear();
  read_.clear();
  for (const auto& [peer, offset, nbytes] : receives) {
    Channel& channel = board_->channel(peer, member_.rank);
    const auto earlier = static_cast<std::uint64_t>(std::ranges::count(read_, peer));
    const std::uint64_t next = channel.released.load(std::memory_order_relaxed) + earlier + 1;
    const Message& message = channel.message(next);
    wait(peer, [&] { return message.number.load() == next; });
    member_.compare(peer, message.call, call_);
    devices_[static_cast<std::size_t>(peer)] =
        message.gpu < 0 ? Device{} : Device{buffer_.device().type, message.gpu};
    std::byte* place = in_place ? announced_bytes(buffer_) + offset : nullptr;
    // A buffer on a device takes no bytes of a CPU: view() refuses them.
    const bool here = message.staged && buffer_.device().type == DeviceType::cpu;
    views_.push_back(nbytes == 0 ? nullptr
                     : here      ? board_->stage(peer) + message.offset
                                 : view({peer, message.offset, nbytes}, board_->state(peer).buffer,
                                        message.ready, place));
    sent_[static_cast<std::size_t>(peer)].heard = true;
    read_.push_back(peer);
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
  mine_.reading.store(0, std::memory_order_release);
  for (const int peer : read_) {
    std::atomic<std::uint64_t>& released = board_->channel(peer, member_.rank).released;
    released.store(released.load(std::memory_order_relaxed) + 1);
    board_->ring(peer);
  }
  enter(step_ + 1);
}

// A peer that has sent something has come. One that has not reads first, even copies.
void BoardTransport::finish() {
  for (int peer = 0; peer < member_.size; ++peer) {
    const Sent& sent = sent_[static_cast<std::size_t>(peer)];
    wait_for_release(peer, sent.heard ? sent.last_in_buffer : sent.last);
  }
  order_after_readers();
  buffer_ = copy_ = {};
  enter(Progress::kFinished);
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
  buffer_ = copy_ = {};
}

void BoardTransport::wait_for_release(int peer, std::uint64_t number) {
  const std::atomic<std::uint64_t>& released = board_->channel(member_.rank, peer).released;
  wait(peer, [&] { return released.load() >= number; });
}

template <class Ready>
void BoardTransport::wait(int peer, const Ready& ready) {
  for (int i = 0; i < kSpins; ++i, pause())
    if (ready()) return;
  const auto start = Clock::now();
  const bool alone = board_->has_own_processor(member_.rank) && board_->has_own_processor(peer);
  while (Clock::now() - start < (alone ? kLongSpins : kYields)) {
    if (ready()) return;
    alone ? pause() : static_cast<void>(sched_yield());
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
