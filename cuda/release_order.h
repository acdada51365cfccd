// How a block returns to the stream that it was made for after another stream has used it last.
#pragma once

namespace ringlet::cuda {

enum class ReleaseOrder {
  at_once,        // later work on the owner's stream is ordered after the use
  behind_event,   // the owner's stream waits for an event of the user's
  behind_capture  // not before the current capture has ended
};

/// `of_graphs`: the block was made in a capture. An event of a capturing stream is a node of the
/// graph and no point in time. A stream outside that waited for it would join the capture, which
/// then could not end. In reverse, a capturing stream cannot wait for an event outside. Between two
/// streams of one capture an event is an edge. It orders the memory of graphs, but not the use of
/// other memory before the capture.
constexpr ReleaseOrder release_order(bool same_stream, bool user_is_captured,
                                     bool owner_is_captured, bool of_graphs) {
  if (same_stream) return ReleaseOrder::at_once;
  if (user_is_captured != owner_is_captured) return ReleaseOrder::behind_capture;
  return user_is_captured && !of_graphs ? ReleaseOrder::behind_capture : ReleaseOrder::behind_event;
}

}  // namespace ringlet::cuda
