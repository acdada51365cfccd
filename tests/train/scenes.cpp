#include "ringlet/train/data/scenes.h"

#include <doctest/doctest.h>

#include <set>

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("a facet: what one term says about another follows from its group") {
  const FacetTerms animals{true, 2, {{"dog", "poodle", "terrier"}, {"cat", "kitten"}}};
  const Term unsaid, dog{0, 0}, poodle{0, 1}, terrier{0, 2}, cat{1, 0}, kitten{1, 1};
  CHECK_EQ(animals.text(terrier), "terrier");
  CHECK(animals.label(poodle, dog) == kEntailment);
  CHECK(animals.label(dog, dog) == kEntailment);
  CHECK(animals.label(dog, unsaid) == kEntailment);
  CHECK(animals.label(unsaid, unsaid) == kEntailment);
  CHECK(animals.label(dog, poodle) == kNeutral);
  CHECK(animals.label(unsaid, dog) == kNeutral);
  CHECK(animals.label(poodle, terrier) == kContradiction);
  CHECK(animals.label(poodle, cat) == kContradiction);
  CHECK_EQ(animals.similarity(poodle, poodle), 1);
  CHECK_EQ(animals.similarity(poodle, dog), 0.75);
  CHECK_EQ(animals.similarity(poodle, terrier), 0.5);
  CHECK_EQ(animals.similarity(poodle, kitten), 0);
  CHECK_EQ(animals.similarity(poodle, unsaid), 0);

  const FacetTerms adjectives{false, 1, {{"", "wet", "dry"}, {"", "tall", "short"}}};
  const Term wet{0, 1}, dry{0, 2}, tall{1, 1};
  CHECK(adjectives.label(wet, dry) == kContradiction);
  CHECK(adjectives.label(wet, tall) == kNeutral);
  CHECK_EQ(adjectives.similarity(wet, dry), 0);
  Draws draws(5);
  for (int i = 0; i < 50; ++i) CHECK_FALSE(adjectives.text(adjectives.draw(draws)).empty());
}

TEST_CASE("nli_label: exclusion beats openness beats entailment") {
  Draws draws(1);
  const Scene hypothesis = draw_scene(2, draws);
  CHECK(nli_label(hypothesis, hypothesis) == kEntailment);
  Scene less = hypothesis;
  for (const Facet facet : {kAdjective, kClothing, kPlace, kTime}) less[facet] = {};
  CHECK(nli_label(hypothesis, less) == kEntailment);  // dropped detail
  CHECK(nli_label(less, hypothesis) == kNeutral);     // added detail
  Scene against = less;
  against[kAction].group = (less[kAction].group + 1) % 12;
  against[kAction].phrase = 0;
  CHECK(nli_label(against, hypothesis) == kContradiction);
}

TEST_CASE("draw_premise gives the label asked for, and as many facets as asked for") {
  Draws draws(2);
  for (int i = 0; i < 500; ++i) {
    const Scene hypothesis = draw_scene(1 + draws.index(2), draws);
    for (const NliLabel label : {kEntailment, kNeutral, kContradiction}) {
      for (const std::size_t facets : {2, 3}) {
        const Scene premise = draw_premise(hypothesis, label, facets, draws);
        CHECK(nli_label(premise, hypothesis) == label);
        std::size_t said = 0;
        for (const Facet facet : {kAdjective, kClothing, kPlace, kTime}) {
          said += premise[facet].said();
        }
        CHECK_EQ(said, facets);
      }
    }
  }
}

TEST_CASE("sts_score: 5 for the same scene, 0 for nothing in common, less for less") {
  Draws draws(3);
  const Scene scene = draw_scene(3, draws);
  CHECK_EQ(sts_score(scene, scene), 5.0);
  Scene dropped = scene;
  for (const Facet facet : {kAdjective, kClothing, kPlace, kTime}) {
    if (!dropped[facet].said()) continue;
    dropped[facet] = {};
    break;
  }
  CHECK_EQ(sts_score(scene, dropped), doctest::Approx(5.0 * 7 / 8));  // 2 + 3 + 2 of 2 + 3 + 3
  CHECK_EQ(sts_score(dropped, scene), sts_score(scene, dropped));
  Scene playing, resting;  // "a child is playing an instrument", "an adult is resting"
  playing[kSubject] = {0, 0};
  resting[kSubject] = {1, 0};
  playing[kAction] = {0, 0};
  resting[kAction] = {10, 0};
  CHECK_EQ(sts_score(playing, resting), 0.0);
}

TEST_CASE("describe: several sentences for one scene, each a sentence") {
  Draws draws(4);
  const Scene scene = draw_scene(4, draws);
  std::set<std::string> sentences;
  for (int i = 0; i < 50; ++i) sentences.insert(describe(scene, draws));
  CHECK_EQ(sentences.size(), 4);
  for (const std::string& sentence : sentences) {
    CHECK(sentence[0] >= 'A');
    CHECK(sentence[0] <= 'Z');
    CHECK(sentence.ends_with('.'));
    CHECK_EQ(sentence.find("  "), std::string::npos);
  }
}
