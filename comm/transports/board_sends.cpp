// Sends over a board: in place, or by copies in the sender's stage.
#include <cstring>
#include <utility>

#include "ringlet/comm/transports/board.h"

namespace ringlet::comm {
namespace {

std::size_t whole_lines(std::size_t nbytes) { return (nbytes + 63) / 64 * 64; }

}  // namespace

// The same bytes for several peers are copied once.
void BoardTransport::send(std::span<const Transmission> sends) {
  if (sends.empty()) return;
  const auto repeats = [&](std::size_t i) {
    return i > 0 && sends[i - 1].offset == sends[i].offset &&
           sends[i - 1].nbytes == sends[i].nbytes;
  };
  std::size_t total = 0;
  for (std::size_t i = 0; i < sends.size(); ++i)
    if (!repeats(i)) total += whole_lines(sends[i].nbytes);
  const bool readable =
      buffer_.device().type != DeviceType::cpu || (total > kMostCopied && is_readable(buffer_));
  const bool staged = !readable && total <= Board::kStage;
  if (staged) reserve_stage(total);
  if (!staged && !readable && !copy_) {
    copy_ = empty(buffer_.shape(), buffer_.dtype(), Device{});
    set_location(copy_);
  }
  std::byte* copies = staged ? board_->stage(member_.rank) : announced_bytes(copy_);
  const StreamEvent* ready = mark_ready();
  std::size_t place = 0;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const auto& [peer, offset, nbytes] = sends[i];
    if (!repeats(i)) {
      place = staged ? std::exchange(stage_end_, stage_end_ + whole_lines(nbytes)) : offset;
      if (copies && nbytes > 0) std::memcpy(copies + place, buffer_.bytes() + offset, nbytes);
    }
    Sent& sent = sent_[static_cast<std::size_t>(peer)];
    if (sent.last >= Channel::kSlots) wait_for_release(peer, sent.last + 1 - Channel::kSlots);
    (staged ? sent.last_staged : sent.last_in_buffer) = ++sent.last;
    Message& message = board_->channel(member_.rank, peer).message(sent.last);
    message.call = call_;
    message.ready = ready;
    message.offset = place;
    message.staged = staged;
    message.gpu = buffer_.device().type == DeviceType::cpu ? -1 : buffer_.device().index;
    message.number.store(sent.last);
    board_->ring(peer);
  }
}

// It starts anew once the peers have read all of it: a step's copies never wait for each other.
void BoardTransport::reserve_stage(std::size_t nbytes) {
  bool read = true;
  for (int peer = 0; peer < member_.size; ++peer) {
    const std::uint64_t last = sent_[static_cast<std::size_t>(peer)].last_staged;
    if (stage_end_ + nbytes > Board::kStage) wait_for_release(peer, last);
    read = read && board_->channel(member_.rank, peer).released.load() >= last;
  }
  if (read) stage_end_ = 0;
}

}  // namespace ringlet::comm
