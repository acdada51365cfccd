// Groups of some ranks of a group: subgroups, and the lanes that carry transfers between two ranks.
#include <algorithm>

#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

GroupState& GroupState::lane(int from, int to) {
  const std::lock_guard lock(calls);
  std::unique_ptr<GroupState>& lane = lanes[{from, to}];
  if (!lane) {
    GroupOptions direct = options;
    direct.algorithm = Algorithm::direct;
    lane = std::make_unique<GroupState>(member.subgroup({from, to}, str(from, ">", to)), direct,
                                        /*connects_late=*/true);
  }
  return *lane;
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
    sum.seconds_running += one.seconds_running;
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

Work Group::send(Tensor tensor, int peer) const {
  return transfer(std::move(tensor), rank(), peer);
}
Work Group::recv(Tensor tensor, int peer) const {
  return transfer(std::move(tensor), peer, rank());
}

Work Group::transfer(Tensor tensor, int from, int to) const {
  check_tensor(Op::send, tensor);
  const int peer = from == rank() ? to : from;
  RINGLET_CHECK(0 <= peer && peer < size() && from != to, "[send] from rank ", from, " to rank ",
                to, " of ", size());
  GroupState& lane = state_->lane(from, to);
  auto collective = lane.plan(Op::send, tensor);
  collective->writes = to == rank();
  return {lane.queue, lane.start(std::move(collective))};
}

}  // namespace ringlet::comm
