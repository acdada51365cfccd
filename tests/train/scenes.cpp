#include "ringlet/train/data/scenes.h"

#include <doctest/doctest.h>

#include <set>

#include "ringlet/train/data/terms.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("terms: what one says about another follows from the tree") {
  // animal > dog > poodle, animal > cat; and "wet" as opposite of "dry", without a general term.
  const Terms terms("animal|animals\n dog|dogs\n  poodle|poodles\n cat|cats\n*\n wet\n dry\n");
  const int animal = 0, dog = 1, poodle = 2, cat = 3, wet = 5, dry = 6;
  CHECK_EQ(terms[poodle].singular, "poodle");
  CHECK_EQ(terms[poodle].plural, "poodles");
  CHECK_EQ(terms[wet].plural, "wet");
  CHECK(terms.relation(poodle, dog) == Relation::entails);
  CHECK(terms.relation(poodle, animal) == Relation::entails);
  CHECK(terms.relation(dog, dog) == Relation::entails);
  CHECK(terms.relation(dog, poodle) == Relation::unknown);
  CHECK(terms.relation(poodle, cat) == Relation::contradicts);
  CHECK(terms.relation(wet, dry) == Relation::contradicts);
  CHECK(terms.relation(wet, dog) == Relation::unknown);
  CHECK(terms.above(poodle) == std::vector<int>{animal, dog});
  CHECK(terms.above(wet).empty());
  CHECK(terms.related(dog, Relation::entails) == std::vector<int>{poodle});
}

TEST_CASE("nli_label: exclusion beats openness beats entailment") {
  Draws draws(1);
  const Scene hypothesis = [&] {
    while (true) {
      const Scene scene = draw_scene(2, draws);
      if (can_be_hypothesis(scene)) return scene;
    }
  }();
  CHECK(nli_label(hypothesis, hypothesis) == kEntailment);
  Scene less = hypothesis;
  for (const Facet facet : {kAdjective, kClothing, kPlace, kTime}) less.terms[facet] = kUnsaid;
  CHECK(nli_label(hypothesis, less) == kEntailment);  // dropped detail
  CHECK(nli_label(less, hypothesis) == kNeutral);     // added detail
  const Scene against = draw_premise(less, kContradiction, 2, draws);
  CHECK(nli_label(against, hypothesis) == kContradiction);
  Scene more = hypothesis;
  more.number += 1;
  CHECK(nli_label(more, hypothesis) == kContradiction);
}

TEST_CASE("draw_premise gives the label asked for, and as many facets as asked for") {
  Draws draws(2);
  for (int i = 0; i < 500; ++i) {
    const Scene hypothesis = draw_scene(draws.index(3), draws);
    if (!can_be_hypothesis(hypothesis)) continue;
    for (const NliLabel label : {kEntailment, kNeutral, kContradiction}) {
      for (const std::size_t facets : {2, 3}) {
        const Scene premise = draw_premise(hypothesis, label, facets, draws);
        CHECK(nli_label(premise, hypothesis) == label);
        std::size_t said = 0;
        for (const Facet facet : {kAdjective, kClothing, kPlace, kTime}) {
          said += premise.terms[facet] != kUnsaid;
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
    if (dropped.terms[facet] == kUnsaid) continue;
    dropped.terms[facet] = kUnsaid;
    break;
  }
  CHECK_EQ(sts_score(scene, dropped), doctest::Approx(5.0 * 7 / 8));  // 2 + 3 + 2 of 2 + 3 + 3
  CHECK_EQ(sts_score(dropped, scene), sts_score(scene, dropped));
  Scene person, animal;  // "a person is playing an instrument", "an animal is drinking"
  animal.world = 1;
  person.terms[kSubject] = animal.terms[kSubject] = 0;
  person.terms[kAction] = 1;
  animal.terms[kAction] = 5;
  CHECK_EQ(sts_score(person, animal), 0.0);
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
