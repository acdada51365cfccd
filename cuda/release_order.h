// How a block goes back to the stream that it was made for when another one has used it last.
#pragma once

namespace ringlet::cuda {

enum class ReleaseOrder {
  at_once,        // what comes next on the owner's stream comes behind the use
  behind_event,   // the owner's stream waits for the user's
  behind_capture  // not before the capture under way has ended
};

/// `of_graphs`: the block was made in a capture. An event of a stream that is being captured is a
/// node of the graph and no point in time: a stream that waited for it without being captured would
/// be drawn into the capture, which then cannot end. The other way round, a captured stream cannot
/// wait for an event outside. Between two streams of one capture an event is an edge, which orders
/// the memory of graphs; but not what both did with other memory before the capture.
constexpr ReleaseOrder release_order(bool same_stream, bool user_is_captured,
                                     bool owner_is_captured, bool of_graphs) {
  if (same_stream) return ReleaseOrder::at_once;
  if (user_is_captured != owner_is_captured) return ReleaseOrder::behind_capture;
  return user_is_captured && !of_graphs ? ReleaseOrder::behind_capture : ReleaseOrder::behind_event;
}

}  // namespace ringlet::cuda
