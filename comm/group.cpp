#include "ringlet/comm/group.h"

#include <algorithm>

#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

Work::Work(std::shared_ptr<Queue> queue, std::shared_ptr<Collective> collective)
    : queue_(std::move(queue)), collective_(std::move(collective)) {}

void Work::wait() const {
  if (!collective_) return;
  queue_->wait(*collective_);
  const DeviceClock::Scope waited(collective_->waited.get(), collective_->end->device());
  collective_->end->make_wait();
  // No event of a capture says when the tensors' memory is free, so they were kept until here.
  if (collective_->captured) collective_->release();
}

bool Work::done() const { return !collective_ || collective_->done; }

GroupState::GroupState(Membership member_, GroupOptions options_)
    : member(std::move(member_)), options(options_), asked_for(options_.transport) {
  if (options.timed) {
    running = std::make_shared<DeviceClock>();
    waited = std::make_shared<DeviceClock>();
  }
  if (member.size == 1) return;
  if (asked_for == TransportKind::nccl) check_nccl();
  host_kind = asked_for;
  host = make_transport(host_kind, member);
  over_host = make_schedule_engine(*host, member.rank, member.size);
  in_kernel = make_in_kernel_engine(*host, member.rank, member.size, member.timeout);
  if (asked_for != TransportKind::nccl) options.transport = host_kind;
  if (options.transport != TransportKind::thread)
    nccl = make_nccl_transport(member, *host, host_kind);
  if (nccl) over_nccl = make_schedule_engine(*nccl, member.rank, member.size);
  if (options.algorithm == Algorithm::native && asked_for != TransportKind::nccl && !host->engine())
    fail_input("[group] ", name(options.transport),
               " has no native collectives: choose ring or direct");
  if (is_in_kernel(options.algorithm) && options.transport != TransportKind::thread)
    fail_input("[group] ", name(options.algorithm),
               " is for ranks that are threads of one process, and these meet over ",
               name(options.transport), ": choose ring or direct");
}

Group::Group(std::shared_ptr<Store> store, std::shared_ptr<Alarm> alarm, int rank, int size,
             GroupOptions options, const std::string& id) {
  RINGLET_CHECK(0 <= rank && rank < size, "[group] rank ", rank, " of ", size);
  RINGLET_CHECK(options.segment_bytes >= 0, "[group] segments of ", options.segment_bytes,
                " bytes");
  state_ = std::make_shared<GroupState>(Membership{std::move(store), std::move(alarm), rank, size,
                                                   options.timeout, id, options.on_note},
                                        options);
}

// All worlds of one are the same.
Group::Group() {
  static const auto alone = std::make_shared<GroupState>(
      Membership{make_memory_store(), make_local_alarm(), 0, 1, {}, "world"}, GroupOptions());
  state_ = alone;
}

int Group::rank() const { return state_->member.rank; }
int Group::size() const { return state_->member.size; }
const GroupOptions& Group::options() const { return state_->options; }
const std::shared_ptr<Alarm>& Group::alarm() const { return state_->member.alarm; }

TransportKind Group::transport(Device device) const {
  return state_->uses_nccl(device) ? TransportKind::nccl : state_->host_kind;
}

GroupStats Group::stats() const {
  const std::lock_guard lock(state_->calls);
  const bool timed = state_->options.timed;
  return {state_->sequence, state_->bytes_sent,
          timed ? state_->running->seconds() : state_->queue->seconds_running(),
          timed ? state_->waited->seconds() : state_->queue->seconds_waited()};
}

Group Group::subgroup(const std::vector<int>& ranks) const {
  GroupOptions options = this->options();
  options.transport = state_->asked_for;
  return subgroup(ranks, options);
}

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
  const auto found = std::find(ranks.begin(), ranks.end(), rank());
  if (found == ranks.end() || ranks.size() == 1) return {};
  return Group(state_->member.store, state_->member.alarm, static_cast<int>(found - ranks.begin()),
               static_cast<int>(ranks.size()), options,
               str(state_->member.id, "/", index, ":", text));
}

}  // namespace ringlet::comm
