// The vocabulary of the drawn scenes.
#pragma once

#include <array>
#include <cstddef>

#include "ringlet/train/data/terms.h"

namespace ringlet::train {

enum Facet : std::size_t { kSubject, kAction, kAdjective, kClothing, kPlace, kTime, kFacets };

/// The terms of each facet.
struct World {
  std::array<Terms, kFacets> terms;
};

/// People, then animals; they share places and times.
const std::array<World, 2>& worlds();

}  // namespace ringlet::train
