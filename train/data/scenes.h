// Small scenes that English sentences describe, for pairs whose label or score is known because of
// how they were made. In a scene somebody does one thing, at one place, at one time: two activities
// or two places exclude each other.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "ringlet/train/data/draws.h"
#include "ringlet/train/data/worlds.h"

namespace ringlet::train {

inline constexpr int kUnsaid = -1;

/// What a sentence says. Subject and action are always said, the other facets may be kUnsaid.
struct Scene {
  std::size_t world = 0;   // index into worlds()
  std::size_t number = 1;  // how many subjects
  std::array<int, kFacets> terms{kUnsaid, kUnsaid, kUnsaid, kUnsaid, kUnsaid, kUnsaid};
};

enum NliLabel : int { kEntailment, kNeutral, kContradiction };

/// Contradiction if a facet excludes another; else neutral if the hypothesis says anything that the
/// premise leaves open (a facet unsaid, or said more generally); else entailment.
NliLabel nli_label(const Scene& premise, const Scene& hypothesis);

/// 5 times the weighted share of facets in common: the action weighs 3, the subject 2, all others
/// 1, over the facets that either scene says. A facet counts 1 if equal, 3/4 if one term is more
/// general, 1/2 for terms with the same parent, else 0. Between two worlds only places and times
/// are compared so; the other facets count 1 if the words are equal.
double sts_score(const Scene& a, const Scene& b);

/// One of several sentences for the scene.
std::string describe(const Scene& scene, Draws& draws);

/// A scene with `optional_facets` (0 to 4) facets said beside subject and action.
Scene draw_scene(std::size_t optional_facets, Draws& draws);
/// True if every label can be reached by premises for this hypothesis.
bool can_be_hypothesis(const Scene& scene);
/// A scene with nli_label(result, hypothesis) == label and `optional_facets` facets said, at least
/// as many as the hypothesis says.
Scene draw_premise(const Scene& hypothesis, NliLabel label, std::size_t optional_facets,
                   Draws& draws);
/// A scene like this one in which each facet is replaced, dropped or said otherwise with the given
/// probability.
Scene draw_variation(const Scene& scene, double probability, Draws& draws);

}  // namespace ringlet::train
