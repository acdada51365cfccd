#include "ringlet/comm/group.h"

#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

Group::Group(std::shared_ptr<Store> store, int rank, int size, GroupOptions options,
             const std::string& id, const std::vector<int>& names) {
  RINGLET_CHECK(0 <= rank && rank < size, "[group] rank ", rank, " of ", size);
  state_ = GroupState::shared(
      {std::move(store), rank, size, options.timeout, id, options.on_note, names}, options);
}

// All worlds of one are the same.
Group::Group() {
  static const auto alone = std::make_shared<GroupState>(
      Membership{make_memory_store(), 0, 1, {}, "world"}, GroupOptions());
  state_ = alone;
}

int Group::rank() const { return state_->member.rank; }
int Group::size() const { return state_->member.size; }
const GroupOptions& Group::options() const { return state_->options; }
Store& Group::store() const { return *state_->member.store; }
GroupStats Group::stats() const { return state_->stats(); }
TransportKind Group::transport(Device device) const { return state_->engines.transport(device); }

}  // namespace ringlet::comm
