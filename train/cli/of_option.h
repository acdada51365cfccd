// Options with values that library functions parse.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "ringlet/core/base/error.h"

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

/// A check of an option's value by the function that parses it.
template <class Parse>
CLI::Validator parsed_by(Parse parse) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        try {
          parse(text);
          return "";
        } catch (const InputError& error) {
          return error.what();
        }
      },
      "", "");
}

}  // namespace ringlet::cli
