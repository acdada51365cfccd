// Settings of a program: errors that name them, and the ranges of numbers.
#pragma once

#include <string>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet {

/// Bad input in a setting: "learning_rate: expected …". A command line names its option instead.
class SettingError : public InputError {
 public:
  SettingError(std::string setting, const std::string& rest)
      : InputError(setting + rest), setting(std::move(setting)) {}

  std::string setting;  // the message begins with it
};

template <class... Args>
[[noreturn]] void fail_setting(std::string setting, const Args&... args) {
  throw SettingError(std::move(setting), str(args...));
}

/// The numbers from `low` to `high`.
template <class T>
struct Range {
  T low, high;
};
template <class T>
Range(T, T) -> Range<T>;

}  // namespace ringlet
