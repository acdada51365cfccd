#include "ringlet/train/data/scenes.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/train/data/worlds.h"

namespace ringlet::train {
namespace {

const Terms& terms_of(const Scene& scene, std::size_t facet) {
  return worlds()[scene.world].terms[facet];
}

bool says(const Scene& scene, std::size_t facet) { return scene.terms[facet] != kUnsaid; }

std::size_t count_optional(const Scene& scene) {
  std::size_t count = 0;
  for (std::size_t facet = kAdjective; facet < kFacets; ++facet) count += says(scene, facet);
  return count;
}

/// Says random facets until `wanted` optional ones are said; never `except`.
void fill(Scene& scene, std::size_t wanted, std::size_t except, Draws& draws) {
  while (count_optional(scene) < wanted) {
    const std::size_t facet = kAdjective + draws.index(kFacets - kAdjective);
    if (facet == except || says(scene, facet)) continue;
    scene.terms[facet] = terms_of(scene, facet).draw(draws);
  }
}

/// The facets of a hypothesis that a premise can contradict or, for neutral, leave open.
std::vector<std::size_t> alterable(const Scene& hypothesis, NliLabel label) {
  std::vector<std::size_t> facets;
  for (std::size_t facet = 0; facet < kFacets; ++facet) {
    if (!says(hypothesis, facet)) continue;
    const Terms& terms = terms_of(hypothesis, facet);
    const int term = hypothesis.terms[facet];
    const bool possible = label == kContradiction
                              ? !terms.related(term, Relation::contradicts).empty()
                              : facet >= kAdjective || !terms.above(term).empty();
    if (possible) facets.push_back(facet);
  }
  return facets;
}

/// Mostly an optional facet: a premise with a general subject or action would reveal neutral.
std::size_t pick_altered(const std::vector<std::size_t>& facets, Draws& draws) {
  std::vector<std::size_t> optional;
  for (const std::size_t facet : facets) {
    if (facet >= kAdjective) optional.push_back(facet);
  }
  return optional.empty() || draws.chance(0.25) ? draws.pick(facets) : draws.pick(optional);
}

/// A term that entails this one: itself or, sometimes and if there is one, a special case.
int narrow(const Terms& terms, int term, Draws& draws) {
  const std::vector<int> special = terms.related(term, Relation::entails);
  return special.empty() || draws.chance(0.6) ? term : draws.pick(special);
}

/// Nothing, or a term that leaves this one open; a term if the facet must be said.
int leave_open(const Terms& terms, int term, bool must_be_said, Draws& draws) {
  if (must_be_said) return draws.pick(terms.above(term));
  const std::vector<int> open = terms.related(term, Relation::unknown);
  return open.empty() || draws.chance(0.5) ? kUnsaid : draws.pick(open);
}

double similarity(const Terms& terms, int a, int b) {
  if (a == b) return 1;
  if (terms.is_above(a, b) || terms.is_above(b, a)) return 0.75;
  const int parent = terms[a].parent;
  const bool siblings = parent >= 0 && parent == terms[b].parent && !terms[parent].singular.empty();
  return siblings ? 0.5 : 0;
}

std::string noun_phrase(const Scene& scene) {
  const auto said = [&](std::size_t facet) -> const std::string& {
    const Terms::Term& term = terms_of(scene, facet)[scene.terms[facet]];
    return scene.number == 1 ? term.singular : term.plural;
  };
  std::string phrase = said(kSubject);
  if (says(scene, kAdjective)) phrase = said(kAdjective) + " " + phrase;
  if (scene.number == 1) {
    const bool vowel = std::string_view("aeiou").find(phrase[0]) != std::string_view::npos;
    phrase = (vowel ? "an " : "a ") + phrase;
  } else {
    phrase = (scene.number == 2 ? "two " : "three ") + phrase;
  }
  if (says(scene, kClothing)) phrase += " " + said(kClothing);
  return phrase;
}

}  // namespace

NliLabel nli_label(const Scene& premise, const Scene& hypothesis) {
  if (premise.world != hypothesis.world || premise.number != hypothesis.number) {
    return kContradiction;
  }
  NliLabel label = kEntailment;
  for (std::size_t facet = 0; facet < kFacets; ++facet) {
    if (!says(hypothesis, facet)) continue;
    Relation relation = Relation::unknown;
    if (says(premise, facet)) {
      relation = terms_of(premise, facet).relation(premise.terms[facet], hypothesis.terms[facet]);
    }
    if (relation == Relation::contradicts) return kContradiction;
    if (relation == Relation::unknown) label = kNeutral;
  }
  return label;
}

double sts_score(const Scene& a, const Scene& b) {
  constexpr std::array<double, kFacets> kWeights{2, 3, 1, 1, 1, 1};
  double shared = 0;
  double total = 0;
  for (std::size_t facet = 0; facet < kFacets; ++facet) {
    if (!says(a, facet) && !says(b, facet)) continue;
    total += kWeights[facet];
    if (!says(a, facet) || !says(b, facet)) continue;
    const Terms& terms = terms_of(a, facet);
    if (a.world == b.world || facet >= kPlace) {
      shared += kWeights[facet] * similarity(terms, a.terms[facet], b.terms[facet]);
    } else if (terms[a.terms[facet]].singular == terms_of(b, facet)[b.terms[facet]].singular) {
      shared += kWeights[facet];
    }
  }
  return 5 * shared / total;
}

std::string describe(const Scene& scene, Draws& draws) {
  const auto said = [&](std::size_t facet) {
    return says(scene, facet) ? terms_of(scene, facet)[scene.terms[facet]].singular : "";
  };
  const std::string subject = noun_phrase(scene);
  const std::string verb = scene.number == 1 ? "is" : "are";
  const std::string action = said(kAction);
  const auto spaced = [](const std::string& text) { return text.empty() ? text : " " + text; };
  const std::string place = spaced(said(kPlace));
  const std::string time = spaced(said(kTime));
  const auto first = [](const std::string& text) { return text.substr(1) + ", "; };
  std::string sentence;
  const std::size_t form = draws.index(5);
  if (form == 0 && !time.empty()) {
    sentence = first(time) + subject + " " + verb + " " + action + place;
  } else if (form == 1 && !place.empty()) {
    sentence = first(place) + subject + " " + verb + " " + action + time;
  } else if (form == 2) {
    sentence = "there " + verb + " " + subject + " " + action + place + time;
  } else {
    sentence = subject + " " + verb + " " + action + place + time;
  }
  sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
  return sentence + ".";
}

Scene draw_scene(std::size_t optional_facets, Draws& draws) {
  Scene scene;
  scene.world = draws.chance(0.7) ? 0 : 1;
  scene.number = draws.chance(0.5) ? 1 : 2 + draws.index(2);
  scene.terms[kSubject] = terms_of(scene, kSubject).draw(draws);
  scene.terms[kAction] = terms_of(scene, kAction).draw(draws);
  fill(scene, optional_facets, kFacets, draws);
  return scene;
}

bool can_be_hypothesis(const Scene& scene) {
  return !alterable(scene, kNeutral).empty() && !alterable(scene, kContradiction).empty();
}

Scene draw_premise(const Scene& hypothesis, NliLabel label, std::size_t optional_facets,
                   Draws& draws) {
  const std::size_t altered =
      label == kEntailment ? kFacets : pick_altered(alterable(hypothesis, label), draws);
  Scene premise = hypothesis;
  for (std::size_t facet = 0; facet < kFacets; ++facet) {
    if (!says(hypothesis, facet)) continue;
    const Terms& terms = terms_of(hypothesis, facet);
    int& term = premise.terms[facet];
    if (facet != altered) {
      term = narrow(terms, term, draws);
    } else if (label == kContradiction) {
      term = draws.pick(terms.related(term, Relation::contradicts));
    } else {
      term = leave_open(terms, term, facet < kAdjective, draws);
    }
  }
  fill(premise, optional_facets, altered, draws);
  RINGLET_CHECK_EQ(static_cast<int>(nli_label(premise, hypothesis)), static_cast<int>(label),
                   "[draw_premise] the label of the scenes drawn");
  return premise;
}

Scene draw_variation(const Scene& scene, double probability, Draws& draws) {
  Scene other = scene;
  for (std::size_t facet = 0; facet < kFacets; ++facet) {
    if (!draws.chance(probability)) continue;
    const Terms& terms = terms_of(scene, facet);
    int& term = other.terms[facet];
    if (facet >= kAdjective && term != kUnsaid && draws.chance(0.3)) {
      term = kUnsaid;
    } else if (term != kUnsaid && !terms.above(term).empty() && draws.chance(0.3)) {
      term = draws.pick(terms.above(term));
    } else {
      term = terms.draw(draws);
    }
  }
  return other;
}

}  // namespace ringlet::train
