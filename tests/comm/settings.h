// The transports, algorithms and numbers of ranks that a test of collectives runs over.
#pragma once

#include <doctest/doctest.h>

#include <chrono>

#include "ranks.h"

namespace ringlet::comm {

struct Setting {
  TransportKind transport;
  Algorithm algorithm;
  int ranks;
};

inline std::vector<Setting> settings(const std::vector<Algorithm>& algorithms = {Algorithm::direct,
                                                                                 Algorithm::ring}) {
  std::vector<Setting> all;
  for (const TransportKind transport : transports())
    for (const Algorithm algorithm : algorithms)
      for (const int ranks : {1, 2, 3, 4, 5})
        if (transport != TransportKind::gloo || ranks == 2 || ranks == 3)
          all.push_back({transport, algorithm, ranks});
  return all;
}

/// Short segments, so that small tensors take the same path as long ones.
inline void with_ranks(const Setting& setting, const std::function<void(const Group&)>& rank_main) {
  const std::string name = str(comm::name(setting.transport), ", ", comm::name(setting.algorithm),
                               ", ", setting.ranks, " ranks");
  CAPTURE(name);
  CHECK_NOTHROW(
      launch(rank_main, setting.ranks,
             {.group = {.transport = setting.transport,
                        .algorithm = setting.algorithm,
                        .timeout = std::chrono::seconds(60),
                        .segment_bytes = setting.transport == TransportKind::gloo ? 2048 : 256}}));
}

/// Pieces of unequal size, one of them empty, with a gap before the last.
inline Pieces uneven_pieces(int ranks, std::int64_t unit) {
  Pieces pieces;
  std::int64_t end = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == ranks - 1) end += 3;
    const std::int64_t count = rank == 1 ? 0 : unit * (rank + 1) + rank;
    pieces.push_back({end, count});
    end += count;
  }
  return pieces;
}

inline std::int64_t end_of(const Pieces& pieces) {
  return pieces.back().offset + pieces.back().count;
}

}  // namespace ringlet::comm
