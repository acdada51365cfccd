#include "ringlet/train/checkpoint/snapshot.h"

#include <algorithm>
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

std::vector<std::string> moment_names(const Snapshot& snapshot) {
  std::vector<std::string> names;
  for (const auto& parameter : snapshot.moments)
    for (const auto& [name, moment] : parameter.moments)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

/// The text that `root` has.
std::string from_root(const comm::Group& group, int root, const std::string& text) {
  return group.all_gather_bytes(group.rank() == root ? text : "")[static_cast<std::size_t>(root)];
}

/// The snapshot of `root`, its moments in new memory.
Snapshot receive(Snapshot mine, nn::Module& module, const comm::Group& group, int root) {
  const bool sends = group.rank() == root;
  const std::string state =
      from_root(group, root, sends ? checkpoint::to_json(mine.state, mine.moments, "").dump() : "");
  std::string names;
  for (const std::string& name : moment_names(mine)) names += name + '\n';
  names = from_root(group, root, names);
  if (!sends) {
    const JsonNode json(Json::parse(state), str("the state of rank ", root));
    mine.state = checkpoint::from_json(json);
    mine.moments.clear();
    for (const nn::NamedParameter& named : module.named_parameters()) {
      auto& to = mine.moments.emplace_back();
      to.name = named.name;
      to.steps = checkpoint::updates_from_json(json, named.name, mine.state.step);
      std::istringstream lines(to.steps > 0 ? names : "");
      for (std::string name; std::getline(lines, name);)
        to.moments.emplace_back(name, zeros_like(named.parameter.tensor()));
    }
  }
  for (const auto& parameter : mine.moments)
    for (const auto& [name, moment] : parameter.moments) group.broadcast(moment, root).wait();
  for (const auto& [name, buffer] : module.named_buffers()) group.broadcast(buffer, root).wait();
  group.broadcast(nn::pack(module)->data(), root).wait();
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
