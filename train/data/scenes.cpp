#include "ringlet/train/data/scenes.h"

#include <algorithm>
#include <string_view>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

/// "in a coat" above "in a red coat", "in a blue coat", …
std::vector<FacetTerms::Group> clothes() {
  std::vector<FacetTerms::Group> groups;
  for (const char* garment : {"coat", "hat", "shirt", "scarf", "sweater", "jacket"}) {
    groups.push_back({str("in a ", garment)});
    for (const char* colour : {"red", "blue", "green", "yellow", "black", "white"})
      groups.back().push_back(str("in a ", colour, " ", garment));
  }
  return groups;
}

std::array<FacetTerms, kFacets> make_terms() {
  std::array<FacetTerms, kFacets> facets;
  facets[kSubject] = {true, 2, {{"child", "boy", "girl"}, {"adult", "man", "woman"}}};
  facets[kAction] = {
      true,
      3,
      {{"playing an instrument", "playing the guitar", "playing the violin", "playing the drums"},
       {"playing a ball game", "playing soccer", "playing basketball", "playing tennis"},
       {"playing a board game", "playing chess", "playing checkers", "playing dominoes"},
       {"eating something", "eating an apple", "eating a sandwich", "eating a bowl of soup"},
       {"drinking something", "drinking a cup of tea", "drinking some water"},
       {"reading something", "reading a book", "reading a newspaper", "reading a letter"},
       {"making art", "painting a picture", "drawing a map", "shaping a clay pot"},
       {"exercising", "doing push-ups", "jumping rope", "stretching", "lifting weights"},
       {"cleaning", "sweeping the floor", "washing a window", "wiping a table"},
       {"dancing", "dancing a waltz", "dancing a tango"},
       {"resting", "sleeping", "sitting quietly"},
       {"using a machine", "typing on a laptop", "talking on a phone", "taking a photo"}}};
  facets[kAdjective] = {false,
                        1,
                        {{"", "tall", "short"},
                         {"", "happy", "sad"},
                         {"", "wet", "dry"},
                         {"", "quiet", "noisy"},
                         {"", "calm", "nervous"},
                         {"", "clean", "muddy"},
                         {"", "polite", "rude"}}};
  facets[kClothing] = {false, 1, clothes()};
  facets[kPlace] = {
      true,
      1,
      {{"outdoors", "in a park", "on a beach", "in a garden", "on a bridge", "in a forest",
        "beside a lake", "on a farm", "in a parking lot", "on a mountain trail", "on a boat"},
       {"indoors", "in a kitchen", "in a library", "in a classroom", "in a museum",
        "in a hotel lobby", "in a gym", "in a living room", "in a bakery", "in an office"}}};
  facets[kTime] = {
      false,
      1,
      {{"", "in the morning", "at noon", "in the afternoon", "in the evening", "at midnight"},
       {"", "on a rainy day", "on a sunny day", "on a foggy day", "on a snowy day"}}};
  return facets;
}

bool is_optional(std::size_t facet) { return facet >= kAdjective; }

/// Says random facets until `wanted` optional ones are said; never `except`.
void fill(Scene& scene, std::size_t wanted, std::size_t except, Draws& draws) {
  auto said =
      std::count_if(scene.begin() + kAdjective, scene.end(), [](Term t) { return t.said(); });
  while (static_cast<std::size_t>(said) < wanted) {
    const std::size_t facet = kAdjective + draws.index(kFacets - kAdjective);
    if (facet == except || scene[facet].said()) continue;
    scene[facet] = terms_of(facet).draw(draws);
    ++said;
  }
}

/// A premise's terms under which the facet of a hypothesis has this label.
std::vector<Term> premises(std::size_t facet, Term hypothesis, NliLabel label) {
  const FacetTerms& terms = terms_of(facet);
  std::vector<Term> found;
  const auto add = [&](Term term) {
    if (terms.label(term, hypothesis) == label) found.push_back(term);
  };
  if (is_optional(facet)) add({});
  for (int group = 0; group < std::ssize(terms.groups); ++group)
    for (int phrase = 0; phrase < std::ssize(terms.groups[static_cast<std::size_t>(group)]);
         ++phrase)
      if (const Term term{group, phrase}; !terms.text(term).empty()) add(term);
  return found;
}

}  // namespace

NliLabel FacetTerms::label(Term premise, Term hypothesis) const {
  if (!hypothesis.said()) return kEntailment;
  if (!premise.said()) return kNeutral;
  if (premise.group != hypothesis.group) return exclusive ? kContradiction : kNeutral;
  if (premise == hypothesis || hypothesis.phrase == 0) return kEntailment;
  return premise.phrase == 0 ? kNeutral : kContradiction;
}

double FacetTerms::similarity(Term a, Term b) const {
  if (a == b) return 1;
  if (a.group != b.group) return 0;
  if (a.phrase == 0 || b.phrase == 0) return 0.75;
  return text({a.group, 0}).empty() ? 0 : 0.5;
}

Term FacetTerms::draw(Draws& draws) const {
  const std::size_t group = draws.index(groups.size());
  const std::size_t first = groups[group][0].empty() ? 1 : 0;
  const std::size_t phrase = first + draws.index(groups[group].size() - first);
  return {static_cast<int>(group), static_cast<int>(phrase)};
}

const FacetTerms& terms_of(std::size_t facet) {
  static const std::array<FacetTerms, kFacets> kTerms = make_terms();
  return kTerms[facet];
}

NliLabel nli_label(const Scene& premise, const Scene& hypothesis) {
  NliLabel label = kEntailment;
  for (std::size_t facet = 0; facet < kFacets; ++facet)
    label = std::max(label, terms_of(facet).label(premise[facet], hypothesis[facet]));
  return label;
}

double sts_score(const Scene& a, const Scene& b) {
  double shared = 0, total = 0;
  for (std::size_t facet = 0; facet < kFacets; ++facet) {
    if (!a[facet].said() && !b[facet].said()) continue;
    const FacetTerms& terms = terms_of(facet);
    total += terms.weight;
    shared += terms.weight * terms.similarity(a[facet], b[facet]);
  }
  return 5 * shared / total;
}

std::string describe(const Scene& scene, Draws& draws) {
  const auto said = [&](Facet facet) {
    return scene[facet].said() ? " " + terms_of(facet).text(scene[facet]) : "";
  };
  const std::string subject = said(kAdjective) + said(kSubject) + said(kClothing);
  const bool vowel = std::string_view("aeiou").find(subject[1]) != std::string_view::npos;
  const std::string who = (vowel ? "an" : "a") + subject;
  const std::string action = said(kAction), place = said(kPlace), time = said(kTime);
  const std::size_t form = draws.index(5);
  std::string sentence = who + " is" + action + place + time;
  if (form == 0 && !time.empty()) sentence = time.substr(1) + ", " + who + " is" + action + place;
  if (form == 1 && !place.empty()) sentence = place.substr(1) + ", " + who + " is" + action + time;
  if (form == 2) sentence = "there is " + who + action + place + time;
  sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
  return sentence + ".";
}

Scene draw_scene(std::size_t optional, Draws& draws) {
  Scene scene;
  for (const Facet facet : {kSubject, kAction}) scene[facet] = terms_of(facet).draw(draws);
  fill(scene, optional, kFacets, draws);
  return scene;
}

Scene draw_premise(const Scene& hypothesis, NliLabel label, std::size_t optional, Draws& draws) {
  Scene premise = hypothesis;
  // One facet makes the label. A general subject or action would reveal neutral.
  std::size_t altered = kFacets;
  for (std::vector<Term> terms; label != kEntailment && terms.empty();) {
    altered = draws.index(kFacets);
    if (!hypothesis[altered].said() || (label == kNeutral && !is_optional(altered))) continue;
    terms = premises(altered, hypothesis[altered], label);
    if (!terms.empty()) premise[altered] = draws.pick(terms);
  }
  for (std::size_t facet = 0; facet < kFacets; ++facet)
    if (facet != altered && hypothesis[facet].said())
      premise[facet] = draws.pick(premises(facet, hypothesis[facet], kEntailment));
  fill(premise, optional, altered, draws);
  RINGLET_CHECK_EQ(static_cast<int>(nli_label(premise, hypothesis)), static_cast<int>(label),
                   "[draw_premise] the label of the scenes drawn");
  return premise;
}

Scene draw_variation(const Scene& scene, double probability, Draws& draws) {
  Scene other = scene;
  for (std::size_t facet = 0; facet < kFacets; ++facet) {
    if (!draws.chance(probability)) continue;
    const bool drop = is_optional(facet) && draws.chance(0.3);
    other[facet] = drop ? Term{} : terms_of(facet).draw(draws);
  }
  return other;
}

}  // namespace ringlet::train
