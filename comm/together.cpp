#include "ringlet/comm/together.h"

#include "ringlet/comm/group_state.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

/// The collectives that several ranks call, and how they run.
class Together {
 public:
  explicit Together(std::span<const Group> ranks) : ranks_(ranks), called_(ranks.size()) {}

  void gather(const std::function<void(const Group& rank)>& calls);
  void run();

 private:
  using Collectives = std::vector<std::shared_ptr<Collective>>;
  std::span<const Group> ranks_;
  std::vector<Collectives> called_;  // [rank]
};

void Together::gather(const std::function<void(const Group& rank)>& calls) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const Group& rank = ranks_[r];
    RINGLET_CHECK(
        rank.rank() == static_cast<int>(r) && rank.size() == static_cast<int>(called_.size()),
        "[together] takes all ranks of a group, in order");
    if (rank.size() == 1) return calls(rank);
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
    Collectives column;  // one collective, of all ranks
    for (const Collectives& rank : called_) column.push_back(rank[i]);
    try {
      comm::run(column);
    } catch (const std::exception& error) {
      for (const Group& rank : ranks_) rank.state_->host->stop_reading();
      for (std::size_t r = 0; r < column.size(); ++r) {
        const StreamGuard on(*column[r]->stream);
        ranks_[r].state_->abandon(*column[r], error);
      }
      throw;
    }
    for (const auto& rank : column) rank->end->make_wait();
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
