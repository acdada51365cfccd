// Groups of some ranks of a group: subgroups, and the lanes that carry transfers between two ranks.
#include <algorithm>
#include <exception>

#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

GroupState& GroupState::lane(int from, int to, int tag) {
  const std::lock_guard lock(calls);
  std::unique_ptr<GroupState>& lane = lanes[{from, to, tag}];
  if (!lane) {
    GroupOptions of_lane = options;
    of_lane.algorithm = Algorithm::direct;
    if (options.transport != TransportKind::nccl) of_lane.transport = host_kind;
    Membership pair =
        member.subgroup({from, to}, str(from, ">", to, tag == 0 ? "" : str(", tag ", tag)));
    pair.on_note = {};  // the group has noted it, and notes do not come from several threads
    lane = std::make_unique<GroupState>(std::move(pair), of_lane, /*connects_late=*/true);
  }
  return *lane;
}

void GroupState::end_transfers() noexcept {
  if (!connects_late || std::uncaught_exceptions() == 0 || queue->is_idle()) return;
  try {
    member.store->raise(ended_in_flight(member.me()));
  } catch (const Error&) {  // the store is full: peers end after the timeout
  }
}

GroupStats GroupState::stats() const {
  const std::lock_guard lock(calls);
  GroupStats sum{sequence, bytes_sent,
                 options.timed ? running->seconds() : queue->seconds_running(),
                 options.timed ? waited->seconds() : queue->seconds_waited()};
  for (const auto& [ends, lane] : lanes) {
    const GroupStats one = lane->stats();
    sum.collectives += one.collectives;
    sum.bytes_sent += one.bytes_sent;
    sum.seconds_waited += one.seconds_waited;
  }
  return sum;
}

Group Group::subgroup(const std::vector<int>& ranks) const { return subgroup(ranks, options()); }

Group Group::subgroup(const std::vector<int>& ranks, GroupOptions options) const {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RINGLET_CHECK(0 <= ranks[i] && ranks[i] < size() && (i == 0 || ranks[i - 1] < ranks[i]),
                  "[subgroup] ranks must be ascending and below ", size(), "; got ", ranks[i]);
    text += str(i == 0 ? "" : ",", ranks[i]);
  }
  const std::vector<std::string> theirs = all_gather_bytes(text);
  for (std::size_t rank = 0; rank < theirs.size(); ++rank)
    RINGLET_CHECK(theirs[rank] == text, "[subgroup] rank ", rank, " named ranks ", theirs[rank],
                  ", rank ", this->rank(), " ", text);
  if (size() == 1) return {};
  const int index = ++state_->subgroups;
  if (!std::ranges::count(ranks, rank()) || ranks.size() == 1) return {};
  Membership part = state_->member.subgroup(ranks, str(index, ":", text));
  part.timeout = options.timeout;
  part.on_note = options.on_note;
  Group group;
  group.state_ = std::make_shared<GroupState>(std::move(part), std::move(options));
  return group;
}

Work Group::send(Tensor tensor, int peer, int tag) const {
  return transfer(std::move(tensor), rank(), peer, tag);
}
Work Group::recv(Tensor tensor, int peer, int tag) const {
  return transfer(std::move(tensor), peer, rank(), tag);
}

Work Group::transfer(Tensor tensor, int from, int to, int tag) const {
  const bool sends = from == rank();
  const int peer = sends ? to : from;
  RINGLET_CHECK(tensor.defined(), "[", sends ? "send" : "recv", "] of an undefined tensor");
  RINGLET_CHECK(0 <= peer && peer < size() && from != to, "[", sends ? "send" : "recv",
                "] from rank ", from, " to rank ", to, " of ", size());
  GroupState& lane = state_->lane(from, to, tag);
  auto collective = lane.plan(Op::send, tensor);
  collective->writes = !sends;
  return {lane.queue, lane.start(std::move(collective))};
}

}  // namespace ringlet::comm
