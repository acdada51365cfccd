// Small scenes and English sentences about them, for pairs with a label or score that is known by
// construction. A scene has one actor, one activity, one place and one time: two activities or two
// places exclude each other.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "ringlet/train/data/draws.h"

namespace ringlet::train {

enum NliLabel : int { kEntailment, kNeutral, kContradiction };

/// A phrase of a facet, by its place in FacetTerms::groups.
struct Term {
  int group = -1;  // -1: the scene does not say it
  int phrase = 0;
  bool said() const { return group >= 0; }
  bool operator==(const Term&) const = default;
};

/// The phrases that a scene may use in one place. The first of a group is the general phrase, above
/// the others; it may be empty. The others of a group exclude each other.
struct FacetTerms {
  using Group = std::vector<std::string>;
  bool exclusive = false;  // phrases of two groups exclude each other, else they are unrelated
  double weight = 1;       // in sts_score
  std::vector<Group> groups;

  const std::string& text(Term term) const {
    return groups.at(static_cast<std::size_t>(term.group))[static_cast<std::size_t>(term.phrase)];
  }
  /// The label of a hypothesis that says one term and nothing else, given a premise's term.
  NliLabel label(Term premise, Term hypothesis) const;
  /// 1 for equal terms, 3/4 if one is more general, 1/2 under one general phrase, else 0.
  double similarity(Term a, Term b) const;
  /// A random term.
  Term draw(Draws& draws) const;
};

enum Facet : std::size_t { kSubject, kAction, kAdjective, kClothing, kPlace, kTime, kFacets };
const FacetTerms& terms_of(std::size_t facet);

/// The content of a sentence. Subject and action are always said, the other facets are optional.
using Scene = std::array<Term, kFacets>;

/// Contradiction if a facet excludes another; else neutral if the hypothesis says anything that the
/// premise leaves open (a facet unsaid, or said more generally); else entailment.
NliLabel nli_label(const Scene& premise, const Scene& hypothesis);
/// 5 times the weighted mean of the facets' similarities, over the facets that either scene says.
double sts_score(const Scene& a, const Scene& b);
/// One of several sentences for the scene.
std::string describe(const Scene& scene, Draws& draws);

/// A scene with `optional` (0 to 4) facets in addition to subject and action.
Scene draw_scene(std::size_t optional, Draws& draws);
/// A scene with nli_label(result, hypothesis) == label. It says `optional` optional facets, from 2
/// on and as many as the hypothesis says, which is at least one.
Scene draw_premise(const Scene& hypothesis, NliLabel label, std::size_t optional, Draws& draws);
/// A scene like this one; each facet is drawn again, or perhaps dropped, with the given
/// probability.
Scene draw_variation(const Scene& scene, double probability, Draws& draws);

}  // namespace ringlet::train
