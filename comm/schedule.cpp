#include "ringlet/comm/schedule.h"

#include <algorithm>

#include "ringlet/core/error.h"

namespace ringlet::comm {

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

std::int64_t elements_sent(const Schedule& schedule, const Pieces& pieces) {
  std::int64_t elements = 0;
  for (const Step& step : schedule)
    for (const Transfer& send : step.sends)
      elements += pieces[static_cast<std::size_t>(send.piece)].count;
  return elements;
}

Schedule barrier_schedule(int rank, int size) {
  Schedule schedule;
  for (int distance = 1; distance < size; distance *= 2)
    schedule.push_back(
        {{{(rank + distance) % size, 0}}, {{(rank + size - distance) % size, 0}}, Then::copy});
  return schedule;
}

}  // namespace ringlet::comm
