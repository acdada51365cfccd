// The words of a text, as a pre-tokenizer makes them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ringlet::models {

/// Words that are not parts of the text, contiguous: word i is text[ends[i - 1], ends[i]).
struct Words {
  std::string text;
  std::vector<std::size_t> ends;

  void clear() {
    text.clear();
    ends.clear();
  }
  /// Ends the word that was appended to `text`, unless it is empty.
  void end_word() {
    if (text.size() > (ends.empty() ? 0 : ends.back())) ends.push_back(text.size());
  }
};

}  // namespace ringlet::models
