// Small scenes and English sentences about them, for pairs with a label or score that is known by
// construction. A scene has one actor, one activity, one place and one time: two activities or two
// places exclude each other.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "ringlet/train/data/draws.h"
#include "ringlet/train/data/worlds.h"

namespace ringlet::train {

inline constexpr int kUnsaid = -1;

/// The content of a sentence. Subject and action are always said, other facets may be kUnsaid.
struct Scene {
  std::size_t world = 0;   // index into worlds()
  std::size_t number = 1;  // how many subjects
  std::array<int, kFacets> terms{kUnsaid, kUnsaid, kUnsaid, kUnsaid, kUnsaid, kUnsaid};
};

enum NliLabel : int { kEntailment, kNeutral, kContradiction };

/// Contradiction if a facet excludes another; else neutral if the hypothesis says anything that the
/// premise leaves open (a facet unsaid, or said more generally); else entailment.
NliLabel nli_label(const Scene& premise, const Scene& hypothesis);

/// 5 times the weighted share of common facets, over the facets that either scene says. The action
/// weighs 3, the subject 2, each other facet 1. A facet counts 1 if equal, 3/4 if one term is more
/// general, 1/2 for terms with the same parent, else 0. Between two worlds only places and times
/// are compared this way; other facets count 1 if the words are equal.
double sts_score(const Scene& a, const Scene& b);

/// One of several sentences for the scene.
std::string describe(const Scene& scene, Draws& draws);

/// A scene with `optional_facets` (0 to 4) facets in addition to subject and action.
Scene draw_scene(std::size_t optional_facets, Draws& draws);
/// Whether premises with every label are possible for this hypothesis.
bool can_be_hypothesis(const Scene& scene);
/// A scene with nli_label(result, hypothesis) == label. It says `optional_facets` facets, which
/// must be at least as many as the hypothesis says.
Scene draw_premise(const Scene& hypothesis, NliLabel label, std::size_t optional_facets,
                   Draws& draws);
/// A scene like this one; each facet is replaced, dropped or generalised with the given
/// probability.
Scene draw_variation(const Scene& scene, double probability, Draws& draws);

}  // namespace ringlet::train
