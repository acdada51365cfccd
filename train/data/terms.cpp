#include "ringlet/train/data/terms.h"

#include <algorithm>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

/// Removes the first line from `text` and returns it.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

}  // namespace

Terms::Terms(std::string_view lines) {
  std::vector<int> path;  // the open term of each level
  while (!lines.empty()) {
    std::string_view line = take_line(lines);
    const std::size_t level = line.find_first_not_of(' ');
    if (level == std::string_view::npos) continue;
    line.remove_prefix(level);
    path.resize(level);
    const int id = static_cast<int>(terms_.size());
    Term term;
    term.parent = level == 0 ? -1 : path.back();
    if (!line.starts_with('*')) {
      const std::size_t bar = line.find('|');
      term.singular = line.substr(0, bar);
      term.plural = bar == std::string_view::npos ? line : line.substr(bar + 1);
      sayable_.push_back(id);
    }
    terms_.push_back(std::move(term));
    path.push_back(id);
  }
}

const Terms::Term& Terms::operator[](int term) const {
  const auto index = static_cast<std::size_t>(term);
  RINGLET_CHECK(index < terms_.size(), "[Terms] term ", term, " of ", terms_.size());
  return terms_[index];
}

bool Terms::is_above(int general, int special) const {
  for (int term = (*this)[special].parent; term >= 0; term = (*this)[term].parent) {
    if (term == general) return true;
  }
  return false;
}

int Terms::root(int term) const {
  while ((*this)[term].parent >= 0) term = (*this)[term].parent;
  return term;
}

Relation Terms::relation(int premise, int hypothesis) const {
  if (premise == hypothesis || is_above(hypothesis, premise)) return Relation::entails;
  if (is_above(premise, hypothesis) || root(premise) != root(hypothesis)) return Relation::unknown;
  return Relation::contradicts;
}

std::vector<int> Terms::related(int term, Relation wanted) const {
  std::vector<int> found;
  for (const int other : sayable_) {
    if (other != term && relation(other, term) == wanted) found.push_back(other);
  }
  return found;
}

std::vector<int> Terms::above(int term) const {
  std::vector<int> found;
  for (const int other : sayable_) {
    if (is_above(other, term)) found.push_back(other);
  }
  return found;
}

}  // namespace ringlet::train
