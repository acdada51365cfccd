// An option's value that a library function parses.
#pragma once

#include <string>

#include "ringlet/core/error.h"

namespace ringlet::cli {

/// Returns parse(). An InputError from it is prefixed with `option`.
template <class Parse>
auto of_option(const std::string& option, Parse&& parse) {
  try {
    return parse();
  } catch (const InputError& error) {
    fail_input(option, ": ", error.what());
  }
}

}  // namespace ringlet::cli
