// One line of JSON lines: the members of an object.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringlet::train {

struct JsonMember {
  enum class Kind { text, null, other };
  std::string key;
  std::string text;  // the string, true, false, or the number as written (integers in decimal)
  Kind kind = Kind::null;
};

/// The members of the line's object, in its order, without those inside of them. `complaint` says
/// why the line has no object; unchanged otherwise.
std::vector<JsonMember> json_members(std::string_view line, std::string& complaint);

}  // namespace ringlet::train
