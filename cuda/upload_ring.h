// The bookkeeping of a ring of pinned bytes, without a device. Pieces in flight lie in the ring in
// the order of their upload, and are freed in that order.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

namespace ringlet::cuda {

/// `Mark` records when the device has read a piece.
template <class Mark>
class UploadRing {
 public:
  static constexpr std::size_t kAlignment = 256;

  explicit UploadRing(std::size_t nbytes) : nbytes_(nbytes) {}

  /// The offset of `wanted` free contiguous bytes (1 to the ring's size). wait(mark) is called for
  /// the pieces in the way, oldest first; not called if there is room.
  template <class Wait>
  std::size_t reserve(std::size_t wanted, Wait wait) {
    if (nbytes_ - head_ < wanted) {
      // Too little before the end: pieces there are freed before those at the start.
      while (!pieces_.empty() && pieces_.front().begin >= head_) drop(wait);
      head_ = 0;
    }
    while (!pieces_.empty() && pieces_.front().begin >= head_ &&
           pieces_.front().begin < head_ + wanted)
      drop(wait);
    return head_;
  }

  /// The reserved bytes are in flight until `mark`. The next piece begins at a multiple of
  /// kAlignment, and so does the ring's end.
  void add(std::size_t nbytes, Mark mark) {
    pieces_.push_back({head_, std::move(mark)});
    head_ += (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Frees pieces from the oldest on while is_done(mark).
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
