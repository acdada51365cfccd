#include "ringlet/core/ops/bad_input.h"

#include "ringlet/core/error.h"

namespace ringlet {
namespace {

[[noreturn]] void fail_id(const char* table, const BadInput& id) {
  fail("[embedding] ", table, " id ", id.value, " at token ", id.at, ", expected 0 to ",
       id.limit - 1);
}

}  // namespace

void fail_bad_input(const BadInput& input) {
  switch (input.kind) {
    case BadInputKind::label:
      fail("[cross_entropy] the label of row ", input.at, " is ", input.value, ", expected 0 to ",
           input.limit - 1);
    case BadInputKind::word_id:
      fail_id("word", input);
    case BadInputKind::position_id:
      fail_id("position", input);
    case BadInputKind::type_id:
      fail_id("token type", input);
    case BadInputKind::sentence:
      fail("[cu_seqlens] sentence ", input.at, " is tokens ", input.value, " to ", input.limit,
           "; cu_seqlens must start at 0, never fall and end at the number of tokens");
    case BadInputKind::none:
      break;
  }
  fail("no bad input");
}

}  // namespace ringlet
