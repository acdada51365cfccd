// The words of the drawn scenes, in trees from general to special.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/train/data/draws.h"

namespace ringlet::train {

/// The relation of one term to another.
enum class Relation { entails, unknown, contradicts };

/// A forest of terms: a term entails those above it; two terms of one tree, neither above the
/// other, exclude each other; terms of two trees are unrelated.
class Terms {
 public:
  /// One term per line, "singular|plural", with one more space of indentation for each level. A
  /// line that starts with "*" opens a tree with a top that cannot be said.
  explicit Terms(std::string_view lines);

  struct Term {
    std::string singular;
    std::string plural;
    int parent = -1;
  };

  const Term& operator[](int term) const;
  /// A random term that can be said.
  int draw(Draws& draws) const { return draws.pick(sayable_); }

  bool is_above(int general, int special) const;
  Relation relation(int premise, int hypothesis) const;

  /// The sayable terms t with relation(t, term) == wanted, `term` itself left out.
  std::vector<int> related(int term, Relation wanted) const;
  /// The sayable terms above `term`.
  std::vector<int> above(int term) const;

 private:
  int root(int term) const;

  std::vector<Term> terms_;
  std::vector<int> sayable_;
};

}  // namespace ringlet::train
