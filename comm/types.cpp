#include "ringlet/comm/types.h"

#include <algorithm>
#include <array>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::comm {
namespace {

constexpr std::array<std::string_view, 5> kOps = {"all_reduce", "reduce_scatter", "all_gather",
                                                  "broadcast", "barrier"};
constexpr std::array<std::string_view, 4> kReduceOps = {"sum", "mean", "max", "min"};
constexpr std::array<std::string_view, 6> kAlgorithms = {
    "auto", "ring", "direct", "native", "in-kernel-ring", "in-kernel-direct"};
constexpr std::array<std::string_view, 5> kTransports = {"auto", "thread", "shm", "gloo", "nccl"};

template <class Enum, std::size_t n>
Enum parse(const char* what, std::string_view text, const std::array<std::string_view, n>& names) {
  std::string known;
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
    known += str(i == 0 ? "" : i + 1 < n ? ", " : " or ", names[i]);
  }
  fail_input("unknown ", what, ' ', quote(text), "; expected ", known);
}

}  // namespace

std::string_view name(Op op) { return kOps[static_cast<std::size_t>(op)]; }
std::string_view name(ReduceOp op) { return kReduceOps[static_cast<std::size_t>(op)]; }
std::string_view name(Algorithm algorithm) {
  return kAlgorithms[static_cast<std::size_t>(algorithm)];
}
std::string_view name(TransportKind kind) { return kTransports[static_cast<std::size_t>(kind)]; }

Algorithm parse_algorithm(std::string_view text) {
  return parse<Algorithm>("algorithm", text, kAlgorithms);
}
TransportKind parse_transport(std::string_view text) {
  return parse<TransportKind>("transport", text, kTransports);
}

bool is_in_kernel(Algorithm algorithm) {
  return algorithm == Algorithm::in_kernel_ring || algorithm == Algorithm::in_kernel_direct;
}

Pieces even_pieces(std::int64_t n, int parts, std::int64_t align) {
  RINGLET_CHECK(n >= 0 && parts > 0 && align > 0, "[even_pieces] of ", n, " elements, ", parts,
                " parts, edges at multiples of ", align);
  const std::int64_t blocks = (n + align - 1) / align;
  const auto edge = [&](int part) { return std::min(n, blocks * part / parts * align); };
  Pieces pieces;
  for (int part = 0; part < parts; ++part)
    pieces.push_back({edge(part), edge(part + 1) - edge(part)});
  return pieces;
}

}  // namespace ringlet::comm
