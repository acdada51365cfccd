// Errors: the library throws ringlet::Error and never prints, exits or aborts. A message starts
// with the operation in brackets and shows both values: "[matmul] inner sizes differ: 3 != 4".
#pragma once

#include <initializer_list>
#include <stdexcept>

#include "ringlet/core/base/str.h"

namespace ringlet {

/// An error inside the library.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Bad input from outside: a file, a line or an option. Programs exit with code 2.
class InputError : public Error {
 public:
  using Error::Error;
};

namespace detail {
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(std::initializer_list<Argument> arguments) {
  throw Error(join(arguments));
}
}  // namespace detail

template <class... Args>
[[noreturn]] void fail(const Args&... args) {
  detail::fail({args...});
}

template <class... Args>
[[noreturn]] void fail_input(const Args&... args) {
  throw InputError(str(args...));
}

}  // namespace ringlet

/// Throws Error with the streamed arguments unless `condition` holds. Always on.
#define RINGLET_CHECK(condition, ...)         \
  do {                                        \
    if (!(condition)) [[unlikely]]            \
      ::ringlet::detail::fail({__VA_ARGS__}); \
  } while (false)

/// Throws "MESSAGE: A != B" unless the two values are equal.
#define RINGLET_CHECK_EQ(a, b, ...)                                                     \
  do {                                                                                  \
    const auto& ringlet_a = (a);                                                        \
    const auto& ringlet_b = (b);                                                        \
    if (!(ringlet_a == ringlet_b)) [[unlikely]]                                         \
      ::ringlet::fail(::ringlet::str(__VA_ARGS__), ": ", ringlet_a, " != ", ringlet_b); \
  } while (false)
