#include "ringlet/comm/call.h"

#include <map>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

std::string extent(const Call& call) {
  return call.op == Op::barrier ? "" : str(" (", call.dtype, ", ", call.count, ")");
}

// The fields that must agree between ranks, as text; the layout, a hash, is left out.
std::string details(const Call& call) {
  return str(name(call.op), " (", call.dtype, ", ", call.count, ", ", name(call.reduce), ", root ",
             call.root, ", ", name(call.algorithm), ")");
}

}  // namespace

std::uint64_t hash_layout(const Pieces& pieces, std::int64_t segments, int logical_ranks) {
  auto hash = static_cast<std::uint64_t>(segments);
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (const Piece& piece : pieces) mix(piece.offset), mix(piece.count);
  mix(logical_ranks);
  return hash;
}

std::string describe(const Call& call) { return str(name(call.op), extent(call)); }

std::string describe_collective(const Call& call) {
  return str("[", name(call.op), "] collective ", call.sequence, extent(call));
}

std::string describe_step(const Call& call, std::uint64_t step) {
  return str(describe_collective(call), ", step ", step);
}

std::string describe_left(const std::string& where, int rank, int left) {
  return str(where, ": rank ", rank, " waits for rank ", left, ", which has left the group");
}

std::string presence(std::uint64_t sequence, const std::vector<Progress>& of_ranks,
                     const std::vector<int>& names) {
  std::string present, missing;
  std::map<std::uint64_t, std::string> by_step;
  const auto add = [&](std::string& list, std::size_t rank) {
    list += str(list.empty() ? "" : ", ", names.empty() ? static_cast<int>(rank) : names[rank]);
  };
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const Progress& progress = of_ranks[rank];
    add(progress.sequence >= sequence ? present : missing, rank);
    add(by_step[progress.sequence > sequence ? Progress::kFinished : progress.step], rank);
  }
  if (!missing.empty()) return str("; ranks present: ", present, "; missing: ", missing);
  std::string text = "; all ranks came";
  for (const auto& [step, ranks] : by_step)
    text +=
        str("; ", step == Progress::kFinished ? "finished" : str("in step ", step), ": ", ranks);
  return text;
}

std::string with_collective(const std::string& cause, int rank, const Call& call) {
  const std::string here = str("collective ", call.sequence);
  for (std::size_t at = cause.find(here); at != cause.npos; at = cause.find(here, at + 1)) {
    const std::size_t end = at + here.size();
    if (end == cause.size() || cause[end] < '0' || cause[end] > '9') return cause;
  }
  return str(cause, "; rank ", rank, " was in ", describe_collective(call));
}

std::string describe_mismatch(int rank, const Call& call, int other_rank, const Call& other) {
  if (call.sequence != other.sequence)
    return str("rank ", rank, " is in collective ", call.sequence, ", ", describe(call), ", rank ",
               other_rank, " in collective ", other.sequence, ", ", describe(other));
  std::string mine = describe(call), theirs = describe(other);
  if (mine == theirs) mine = details(call), theirs = details(other);
  const bool pieces = mine == theirs;
  return str("rank ", rank, " called ", mine, ", rank ", other_rank, " ", theirs,
             pieces ? " with other pieces, or on another kind of device" : "", ", collective ",
             call.sequence);
}

}  // namespace ringlet::comm
