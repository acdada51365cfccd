// Prints a line of each rank of a lesson, in rank order.
#pragma once

#include <iostream>
#include <string>

#include "ringlet.h"

namespace ringlet {

inline void print_in_rank_order(const comm::Group& world, const std::string& line) {
  const std::vector<std::string> lines = world.all_gather_bytes(line);
  if (world.rank() == 0)
    for (const std::string& each : lines) std::cout << each << "\n";
}

}  // namespace ringlet
