#include "ringlet/train/checkpoint/snapshot.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/nn/pack.h"
#include "ringlet/nn/sharding.h"
#include "ringlet/train/checkpoint/checkpoint_state.h"

namespace ringlet::train {
namespace {

/// A snapshot that a rank has, or a shard of one.
struct Offer {
  std::int64_t updates, ending;
  std::int64_t index = 0, shards = 0;  // 0 shards: it is whole
  bool operator==(const Offer&) const = default;
  /// A better source than the other.
  bool operator>(const Offer& other) const {
    return updates != other.updates ? updates > other.updates : ending < other.ending;
  }
};

std::vector<Offer> offers_of(const Snapshot& snapshot) {
  std::vector<Offer> offers;
  for (const ShardCopies& copies : snapshot.copies) {
    Offer& own = offers.emplace_back(Offer{
        copies.state.step, static_cast<std::int64_t>(copies.ending), copies.index, copies.shards});
    if (!copies.previous.defined()) continue;
    const std::int64_t previous = (own.index + own.shards - 1) % own.shards;
    offers.push_back({own.updates, own.ending, previous, own.shards});
  }
  // A rank that has joined holds no shard, though it has received the list of holders.
  if (snapshot.copies.empty() && snapshot.holders.empty())
    offers.push_back({snapshot.state.step, static_cast<std::int64_t>(snapshot.ending)});
  return offers;
}

/// The first rank that has each part of that snapshot; empty if no rank has one of them.
std::vector<int> holders_of(const Offer& wanted, const std::vector<std::vector<Offer>>& all) {
  std::vector<int> holders(static_cast<std::size_t>(std::max<std::int64_t>(1, wanted.shards)), -1);
  for (std::size_t rank = all.size(); rank-- > 0;)
    for (const Offer& offer : all[rank])
      if (offer.updates == wanted.updates && offer.shards == wanted.shards)
        holders[static_cast<std::size_t>(offer.index)] = static_cast<int>(rank);
  if (std::ranges::count(holders, -1) > 0) holders.clear();
  return holders;
}

/// The text that `root` has.
std::string from_root(const comm::Group& group, int root, const std::string& text) {
  return group.all_gather_bytes(group.rank() == root ? text : "")[static_cast<std::size_t>(root)];
}

/// The state of rank `root`, and how often each parameter was updated.
void take_state(Snapshot& mine, const std::string& text, int root) {
  const JsonNode json(Json::parse(text), str("the state of rank ", root));
  mine.state = checkpoint::from_json(json);
  mine.moments.clear();
  const JsonNode updates = json.at("updates").object();
  for (const auto& [name, count] : updates.value().items())
    mine.moments.push_back({name, checkpoint::updates_from_json(json, name), {}});
}

/// The snapshot of `root`, in new memory: until all of it is here, this rank keeps its own.
Snapshot receive(Snapshot mine, nn::Module& module, const comm::Group& group, int root) {
  const bool sends = group.rank() == root;
  std::string text, moments;  // the latter: the names of a parameter's, a line each
  if (sends) {
    text = checkpoint::to_json(mine.state, mine.moments, "").dump();
    const auto updated = std::ranges::find_if(
        mine.moments, [](const auto& parameter) { return !parameter.moments.empty(); });
    if (updated != mine.moments.end())
      for (const auto& [name, moment] : updated->moments) moments += name + '\n';
  }
  text = from_root(group, root, text);
  moments = from_root(group, root, moments);
  if (!sends) {
    take_state(mine, text, root);
    for (auto& parameter : mine.moments) {
      std::istringstream names(parameter.steps > 0 ? moments : "");
      for (std::string name; names >> name;)
        parameter.moments.emplace_back(name, zeros_like(module.parameter(parameter.name).tensor()));
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

/// The state of the update that the ranks go on from, as `root` has it. The shards stay.
Snapshot receive_state(Snapshot mine, const Offer& of, const comm::Group& group, int root) {
  std::string text;
  for (const ShardCopies& copies : mine.copies)
    if (copies.state.step == of.updates && copies.shards == of.shards &&
        static_cast<std::int64_t>(copies.ending) == of.ending)
      text = checkpoint::to_json(copies.state, copies.updates, "").dump();
  take_state(mine, from_root(group, root, text), root);
  return mine;
}

}  // namespace

bool agree_on_snapshot(std::optional<Snapshot>& mine, nn::Module& module,
                       const comm::Group& group) {
  const auto all = comm::all_gather_values(group, mine ? offers_of(*mine) : std::vector<Offer>{});
  const Offer* best = nullptr;
  int root = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (const Offer& offer : all[rank]) {
      if ((best && !(offer > *best)) || holders_of(offer, all).empty()) continue;
      best = &offer;
      root = static_cast<int>(rank);
    }
  if (!best) return false;
  const auto agrees = [&](const auto& rank) { return rank == std::vector{*best}; };
  if (best->shards > 0) {
    Snapshot agreed = receive_state(mine.value_or(Snapshot{}), *best, group, root);
    agreed.holders = holders_of(*best, all);
    mine = std::move(agreed);
  } else if (!std::ranges::all_of(all, agrees)) {
    mine = receive(mine.value_or(Snapshot{}), module, group, root);
  }
  mine->ending = static_cast<StepEnding>(best->ending);
  return true;
}

// ---- redundancy: each shard on two ranks ----

namespace {

constexpr int kTag = 1000;  // of the transfers between neighbours

/// A shard packed into one tensor: of each unit's piece the elements, then the moments by name.
struct PackedShard {
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;  // elements of the arena
  std::int64_t numel = 0;

  PackedShard(const nn::Arena& arena, const Optimizer& optimizer, int index, int shards) {
    for (const nn::Unit& unit : arena.units()) {
      const comm::Piece piece = comm::even_pieces(unit.end - unit.begin, shards,
                                                  kNormBlock)[static_cast<std::size_t>(index)];
      const std::int64_t begin = unit.begin + piece.offset;
      pieces.emplace_back(begin, begin + piece.count);
      numel += piece.count * (1 + std::ssize(optimizer.moment_names()));
    }
  }

  /// Calls visit(part of `packed`, the same part of this rank's slices) where both have elements.
  template <class Visit>
  void for_parts(const Tensor& packed, nn::Arena& arena, Optimizer& optimizer,
                 const Visit& visit) const {
    const std::vector<nn::LocalSlice> slices = arena.local_slices();
    const std::vector<std::vector<Tensor>>& moments = optimizer.local_moments();
    std::int64_t at = 0;
    for (const auto& piece : pieces)
      for (std::size_t m = 0; m <= optimizer.moment_names().size(); ++m) {
        const std::int64_t base = at - piece.first;
        at += piece.second - piece.first;
        for (std::size_t s = 0; s < slices.size(); ++s) {
          const std::int64_t begin = std::max(piece.first, slices[s].begin);
          const std::int64_t end = std::min(piece.second, slices[s].end);
          if (begin >= end) continue;
          const Tensor& local = m == 0 ? slices[s].data : moments[s][m - 1];
          RINGLET_CHECK(local.dtype() == packed.dtype(), "[redundancy] a slice is ", local.dtype());
          visit(packed.slice(base + begin, base + end),
                local.slice(begin - slices[s].begin, end - slices[s].begin));
        }
      }
  }

  /// Slices are f32 or f64. Parameters that FSDP has gathered may be rounded; a rank may have no
  /// slice.
  Tensor memory(nn::Arena& arena) const {
    const nn::Parameter& first = arena.units().front().parameters.front().parameter;
    return empty({numel}, first.dtype() == DType::f64 ? DType::f64 : DType::f32, first.device());
  }
};

/// This rank's copy of a shard of the update agreed upon.
Tensor copy_of(const Snapshot& agreed, int index) {
  for (const ShardCopies& copies : agreed.copies)
    if (copies.state.step == agreed.state.step && copies.shards == std::ssize(agreed.holders)) {
      if (copies.index == index) return copies.own;
      if ((index + 1) % copies.shards == copies.index && copies.previous.defined())
        return copies.previous;
    }
  fail("[redundancy] no copy of shard ", index, " after ", agreed.state.step, " updates");
}

}  // namespace

void copy_shards(std::vector<ShardCopies>& copies, ShardCopies now, nn::Module& module,
                 Optimizer& optimizer, const comm::Group& group) {
  nn::Arena& arena = *module.arena();
  now.updates = optimizer.updates();
  now.index = group.rank();
  now.shards = group.size();
  const PackedShard shard(arena, optimizer, now.index, now.shards);
  now.own = shard.memory(arena);
  shard.for_parts(now.own, arena, optimizer,
                  [](Tensor packed, const Tensor& local) { packed.copy_(local); });
  copies.push_back(std::move(now));
  if (group.size() == 1) return;
  ShardCopies& latest = copies.back();
  const int previous = (latest.index + latest.shards - 1) % latest.shards;
  const Tensor received = PackedShard(arena, optimizer, previous, latest.shards).memory(arena);
  const comm::Work sending = group.send(latest.own, (latest.index + 1) % latest.shards, kTag);
  group.recv(received, previous, kTag).wait();
  latest.previous = received;
  sending.wait();
}

void load_shards(const Snapshot& agreed, nn::Module& module, Optimizer& optimizer,
                 const comm::Group& group) {
  nn::Arena& arena = *module.arena();
  const auto shards = static_cast<int>(agreed.holders.size());
  for (int index = 0; index < shards; ++index) {
    const int holder = agreed.holders[static_cast<std::size_t>(index)];
    const PackedShard shard(arena, optimizer, index, shards);
    const Tensor packed = group.rank() == holder ? copy_of(agreed, index) : shard.memory(arena);
    group.broadcast(packed, holder).wait();
    shard.for_parts(packed, arena, optimizer,
                    [](const Tensor& from, Tensor local) { local.copy_(from); });
  }
  optimizer.set_updates(agreed.moments);
  if (const auto& sharding = arena.sharding()) sharding->after_step(/*all=*/true);
}

}  // namespace ringlet::train
