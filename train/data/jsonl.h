// JSON lines: one object per line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/train/data/lines.h"

namespace ringlet::train {

/// Reads objects; blank lines are skipped. Malformed JSON, a line that is no object and invalid
/// UTF-8 are InputError "FILE:LINE: …".
class JsonlReader {
 public:
  enum class Type { string, number, null, other };
  /// A member of the object. `text` is the string, or the number as written (integers in decimal);
  /// empty for the other types. Nested values are `other` and are not kept.
  struct Member {
    std::string key;
    std::string text;
    Type type = Type::null;
  };

  explicit JsonlReader(LineReader lines);

  /// Reads the next object; false at the end.
  bool next();
  /// Its members in the line's order; a repeated key appears once, with its last value.
  const std::vector<Member>& members() const { return members_; }
  /// Null if there is no such member.
  const Member* find(std::string_view key) const;
  /// The line of the object, from 1.
  std::size_t line() const { return lines_.line(); }
  const std::string& name() const { return lines_.name(); }

 private:
  LineReader lines_;
  std::vector<Member> members_;
};

}  // namespace ringlet::train
