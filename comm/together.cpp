#include "ringlet/comm/together.h"

#include "ringlet/comm/group_state.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {

/// The collectives that several ranks call, and how they run.
class Together {
 public:
  explicit Together(std::span<const Group> ranks) : ranks_(ranks), called_(ranks.size()) {}

  void gather(const std::function<void(const Group& rank)>& calls);
  void run();

 private:
  using Column =
      std::vector<std::pair<GroupState*, const Prepared*>>;  // one collective, of all ranks
  static void run(const Column& column);

  std::span<const Group> ranks_;
  std::vector<std::vector<Prepared>> called_;  // [rank]
};

void Together::gather(const std::function<void(const Group& rank)>& calls) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const Group& rank = ranks_[r];
    RINGLET_CHECK(
        rank.rank() == static_cast<int>(r) && rank.size() == static_cast<int>(called_.size()),
        "[together] takes all ranks of a group, in order");
    if (!rank.state_) return calls(rank);
    RINGLET_CHECK(!rank.state_->nccl, "[together] over nccl each rank needs a thread of its own");
    rank.state_->queue->wait_for_all();  // earlier calls come first
    rank.state_->gathered = &called_[r];
    try {
      calls(rank);
      RINGLET_CHECK_EQ(called_[r].size(), called_[0].size(), "[together] collectives of rank ", r);
    } catch (const std::exception& error) {
      rank.state_->gathered = nullptr;
      rank.state_->raise(error);  // the peers have counted theirs
      throw;
    }
    rank.state_->gathered = nullptr;
  }
}

void Together::run() {
  for (std::size_t i = 0; i < called_[0].size(); ++i) {
    Column column;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      column.emplace_back(ranks_[r].state_.get(), &called_[r][i]);
    try {
      run(column);
    } catch (const std::exception& error) {
      for (const auto& [state, prepared] : column) {
        const StreamGuard on(*prepared->stream);
        state->fail_task(*prepared, error);
      }
      throw;
    }
  }
}

void Together::run(const Column& column) {
  std::vector<RankPart> parts;
  for (const auto& [state, prepared] : column) {
    const StreamGuard on(*prepared->stream);
    state->begin_task(*prepared);
    parts.push_back({&prepared->collective, state->transport.get(), prepared->stream,
                     state->member.rank, state->member.size});
  }
  run_collective(parts);
  for (const auto& [state, prepared] : column) {
    {
      const StreamGuard on(*prepared->stream);
      state->end_task(*prepared);
    }
    prepared->end->make_wait();
  }
}

std::vector<Group> local_ranks(int n, GroupOptions options) {
  std::vector<Group> ranks(static_cast<std::size_t>(n));
  launch([&](const Group& group) { ranks[static_cast<std::size_t>(group.rank())] = group; }, n,
         {.ranks = Ranks::threads, .group = options});
  return ranks;
}

void together(std::span<const Group> ranks, const std::function<void(const Group& rank)>& calls) {
  RINGLET_CHECK(!ranks.empty(), "[together] of no ranks");
  Together all(ranks);
  all.gather(calls);
  all.run();
}

}  // namespace ringlet::comm
