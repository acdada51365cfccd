#include "ringlet/core/ops/bad_input.h"

#include "ringlet/core/base/error.h"

namespace ringlet {

void fail_bad_input(const BadInput& input) {
  switch (input.kind) {
    case BadInputKind::label:
      fail("[cross_entropy] the label of row ", input.at, " is ", input.value, ", expected 0 to ",
           input.limit - 1);
    case BadInputKind::sentence:
      fail("[cu_seqlens] sentence ", input.at, " is tokens ", input.value, " to ", input.limit,
           "; cu_seqlens must start at 0, never fall and end at the number of tokens, and lengths "
           "must fit");
    default:
      fail("[embedding] ", table_name(input.kind), " id ", input.value, " at token ", input.at,
           ", expected 0 to ", input.limit - 1);
  }
}

const char* table_name(BadInputKind id) {
  constexpr const char* kNames[] = {"word", "position", "token type"};
  return kNames[static_cast<std::uint32_t>(id) - static_cast<std::uint32_t>(BadInputKind::word_id)];
}

}  // namespace ringlet
