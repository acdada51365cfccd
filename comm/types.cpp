#include "ringlet/comm/types.h"

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/names.h"

namespace ringlet::comm {
namespace {

constexpr EnumNames<Op, 9> kOps{"collective",
                                {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                 "barrier", "gather", "scatter", "all_to_all", "send"}};
constexpr EnumNames<Algorithm, 6> kAlgorithms{
    "algorithm", {"auto", "ring", "direct", "native", "in-kernel-ring", "in-kernel-direct"}};
constexpr EnumNames<TransportKind, 5> kTransports{"transport",
                                                  {"auto", "thread", "shm", "gloo", "nccl"}};

}  // namespace

std::string_view name(Op op) { return kOps(op); }
std::string_view name(Algorithm algorithm) { return kAlgorithms(algorithm); }
std::string_view name(TransportKind kind) { return kTransports(kind); }

Algorithm parse_algorithm(std::string_view text) { return kAlgorithms.parse(text); }
TransportKind parse_transport(std::string_view text) { return kTransports.parse(text); }

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
