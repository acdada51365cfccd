// The bookkeeping of a ring of pinned bytes, without a device: what is being read lies in it in the
// order in which it was put there, and makes room in that order.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

namespace ringlet::cuda {

/// `Mark` says when the device is done with a piece.
template <class Mark>
class UploadRing {
 public:
  static constexpr std::size_t kAlignment = 256;

  explicit UploadRing(std::size_t nbytes) : nbytes_(nbytes) {}

  /// Where `wanted` bytes (1 to the ring's size) may be written, in one run. wait(mark) is called
  /// for the pieces that are in the way, oldest first: none where there is room.
  template <class Wait>
  std::size_t reserve(std::size_t wanted, Wait wait) {
    if (nbytes_ - head_ < wanted) {
      // Too little before the end: what lies there goes before what lies at the start.
      while (!pieces_.empty() && pieces_.front().begin >= head_) drop(wait);
      head_ = 0;
    }
    while (!pieces_.empty() && pieces_.front().begin >= head_ &&
           pieces_.front().begin < head_ + wanted)
      drop(wait);
    return head_;
  }

  /// What was reserved is on its way until `mark`. The next piece begins on a multiple of
  /// kAlignment, which the ring's size is, too.
  void add(std::size_t nbytes, Mark mark) {
    pieces_.push_back({head_, std::move(mark)});
    head_ += (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Lets go of pieces from the oldest as long as is_done(mark).
  template <class IsDone>
  void collect(IsDone is_done) {
    while (!pieces_.empty() && is_done(pieces_.front().mark)) pieces_.pop_front();
  }

 private:
  struct Piece {
    std::size_t begin;
    Mark mark;
  };

  template <class Wait>
  void drop(Wait& wait) {
    wait(pieces_.front().mark);
    pieces_.pop_front();
  }

  std::size_t nbytes_;
  std::size_t head_ = 0;  // where the next piece begins
  std::deque<Piece> pieces_;
};

}  // namespace ringlet::cuda
