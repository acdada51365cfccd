#include "ringlet/train/checkpoint/snapshot.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "ringlet/comm/rows.h"
#include "ringlet/nn/arena.h"
#include "ringlet/train/checkpoint/checkpoint_state.h"

namespace ringlet::train {
namespace {

struct Progress {
  std::int64_t updates;
  std::int64_t ending;
  bool operator==(const Progress&) const = default;
  /// A better source than the other.
  bool operator>(const Progress& other) const {
    return updates != other.updates ? updates > other.updates : ending < other.ending;
  }
};

/// The names of its moments in order: "PARAMETER NAME" a line.
std::string moment_names(const Snapshot& snapshot) {
  std::string names;
  for (const auto& parameter : snapshot.moments)
    for (const auto& [name, moment] : parameter.moments)
      names += parameter.name + ' ' + name + '\n';
  return names;
}

/// The text that `root` has.
std::string from_root(const comm::Group& group, int root, const std::string& text) {
  return group.all_gather_bytes(group.rank() == root ? text : "")[static_cast<std::size_t>(root)];
}

/// The snapshot of `root`, in new memory: until all of it is here, this rank keeps its own.
Snapshot receive(Snapshot mine, nn::Module& module, const comm::Group& group, int root) {
  const bool sends = group.rank() == root;
  const std::string state =
      from_root(group, root, sends ? checkpoint::to_json(mine.state, mine.moments, "").dump() : "");
  std::istringstream names(from_root(group, root, moment_names(mine)));
  if (!sends) {
    const JsonNode json(Json::parse(state), str("the state of rank ", root));
    mine.state = checkpoint::from_json(json);
    mine.moments.clear();
    for (std::string parameter, name; names >> parameter >> name;) {
      if (mine.moments.empty() || mine.moments.back().name != parameter)
        mine.moments.push_back(
            {parameter, checkpoint::updates_from_json(json, parameter, mine.state.step), {}});
      mine.moments.back().moments.emplace_back(name,
                                               zeros_like(module.parameter(parameter).tensor()));
    }
  }
  for (const auto& parameter : mine.moments)
    for (const auto& [name, moment] : parameter.moments) group.broadcast(moment, root).wait();
  std::vector<Tensor> parts{nn::pack(module)->data()}, received;
  for (const auto& [name, buffer] : module.named_buffers()) parts.push_back(buffer);
  for (const Tensor& part : parts) {
    received.push_back(sends ? part : empty(part.shape(), part.dtype(), part.device()));
    group.broadcast(received.back(), root).wait();
  }
  for (std::size_t i = 0; !sends && i < parts.size(); ++i) parts[i].copy_(received[i]);
  return mine;
}

}  // namespace

bool agree_on_snapshot(std::optional<Snapshot>& mine, nn::Module& module,
                       const comm::Group& group) {
  const Progress own =
      mine ? Progress{mine->state.step, static_cast<std::int64_t>(mine->ending)} : Progress{-1, 0};
  std::vector<Progress> all;
  for (const auto& rank : comm::all_gather_values<Progress>(group, {own})) all.push_back(rank[0]);
  const auto best = std::ranges::max_element(all, [](auto& a, auto& b) { return b > a; });
  if (best->updates < 0) return false;
  const auto root = static_cast<int>(best - all.begin());
  const auto agrees = [&](const Progress& rank) { return rank == *best; };
  if (!std::ranges::all_of(all, agrees))
    mine = receive(mine ? *std::move(mine) : Snapshot{}, module, group, root);
  mine->ending = static_cast<StepEnding>(best->ending);
  return true;
}

}  // namespace ringlet::train
