// Groups of some ranks of a group: subgroups, and the lanes that carry transfers between two ranks.
#include <algorithm>
#include <exception>

#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {

GroupState& GroupState::lane(int from, int to, int tag) {
  const std::lock_guard lock(calls);
  std::unique_ptr<GroupState>& lane = lanes[{from, to, tag}];
  if (!lane) {
    GroupOptions of_lane = options;
    of_lane.algorithm = Algorithm::direct;
    if (options.transport != TransportKind::nccl) of_lane.transport = engines.host_kind;
    Membership pair =
        member.subgroup({from, to}, str(from, ">", to, tag == 0 ? "" : str(", tag ", tag)));
    pair.on_note = {};  // the group has noted it, and notes do not come from several threads
    lane = std::make_unique<GroupState>(std::move(pair), of_lane, /*connects_late=*/true);
  }
  return *lane;
}

// Peers learn over the host's transport that this rank has left. A communicator's end may take
// until they leave, too.
GroupState::~GroupState() {
  queue->drain();
  for (const std::future<void>& ended : ending) ended.wait();
  if (engines.nccl) engines.host.reset();
  for (const auto& [ends, lane] : lanes) {
    lane->queue->drain();
    *lane->member.unwinds = member.unwinds->load();
  }
}

std::shared_ptr<GroupState> GroupState::shared(Membership member, GroupOptions options,
                                               std::weak_ptr<GroupState> parent) {
  const auto release = [parent = std::move(parent)](GroupState* released) {
    std::unique_ptr<GroupState> group(released);
    const bool unwinds = std::uncaught_exceptions() > group->exceptions;
    *group->member.unwinds = unwinds;
    if (!unwinds || group->is_idle()) return;
    if (const auto keeper = parent.lock(); keeper && keeper->end_later(group)) return;
    try {
      group->member.store->raise(str("rank ", group->member.me(),
                                     " has ended by an exception, with a transfer in flight"));
    } catch (const Error&) {  // the store has failed: peers end after the timeout
    }
  };
  return {new GroupState(std::move(member), std::move(options)), release};
}

bool GroupState::is_idle() const {
  const std::lock_guard lock(calls);
  constexpr std::chrono::seconds kNow{0};
  return queue->is_idle() &&
         std::ranges::all_of(lanes, [](const auto& one) { return one.second->is_idle(); }) &&
         std::ranges::all_of(ending, [&](const auto& one) {
           return one.wait_for(kNow) == std::future_status::ready;
         });
}

bool GroupState::end_later(std::unique_ptr<GroupState>& group) noexcept {
  try {
    std::packaged_task<void()> task([released = group.get()] { delete released; });
    auto ended = task.get_future();
    const std::lock_guard lock(calls);
    ending.reserve(ending.size() + 1);
    start_thread(std::move(task)).detach();
    ending.push_back(std::move(ended));
    group.release();
    return true;
  } catch (const std::exception&) {  // there is no thread to be had
    return false;
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
    RINGLET_CHECK(theirs[rank] == text, "[subgroup] rank ",
                  state_->member.name_of(static_cast<int>(rank)), " named ranks ", theirs[rank],
                  ", rank ", state_->member.me(), " ", text);
  if (size() == 1) return {};
  const int index = ++state_->subgroups;
  if (!std::ranges::count(ranks, rank()) || ranks.size() == 1) return {};
  Membership part = state_->member.subgroup(ranks, str(index, ":", text));
  part.timeout = options.timeout;
  part.on_note = options.on_note;
  options.elastic = false;
  Group group;
  group.state_ = GroupState::shared(std::move(part), std::move(options), state_);
  return group;
}

Work Group::send(Tensor tensor, int peer, int tag) const {
  return transfer(std::move(tensor), rank(), peer, tag);
}
Work Group::recv(Tensor tensor, int peer, int tag) const {
  return transfer(std::move(tensor), peer, rank(), tag);
}

std::optional<int> Group::sender(int tag) const {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    GroupState& lane = state_->lane(peer, rank(), tag);
    Transport* host = nullptr;  // made by the thread that runs the lane's first receive
    if (!lane.queue->if_idle([&] { host = lane.engines.host.get(); })) continue;
    if (host ? host->has_sent(0) : lane.member.has_come(0)) return peer;
  }
  return std::nullopt;
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
  return lane.start(std::move(collective));
}

}  // namespace ringlet::comm
