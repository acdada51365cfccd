// The message of an error that a call throws.
#pragma once

#include <string>

#include "ringlet/core/base/error.h"

namespace ringlet {

/// The message of the `Expected` that call() throws; empty if it throws none.
template <class Expected = Error, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

}  // namespace ringlet
