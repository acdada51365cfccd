// str(): text of values. It is formatted in str.cpp, so that each of a thousand callers only lists
// its arguments.
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>

namespace ringlet {
namespace detail {

/// A value that can be streamed, without its type. Refers to the value.
class Argument {
 public:
  Argument(std::string_view value) : text_(value) {}
  Argument(const std::string& value) : text_(value) {}
  Argument(const char* value) : text_(value ? value : "(null)") {}
  template <class T>
  Argument(const T& value) : value_(&value) {
    if constexpr (std::integral<T> || std::floating_point<T>) {
      write_ = write_number<T>;
    } else {
      write_ = [](std::ostream& out, const void* v) { out << *static_cast<const T*>(v); };
    }
  }
  void write(std::ostream& out) const;

 private:
  template <class T>
  static void write_number(std::ostream& out, const void* value);  // in str.cpp

  std::string_view text_;
  const void* value_ = nullptr;
  void (*write_)(std::ostream& out, const void* value) = nullptr;  // null: the argument is text_
};

std::string join(std::initializer_list<Argument> arguments);

}  // namespace detail

/// All arguments as std::ostream writes them, without anything between them.
template <class... Args>
std::string str(const Args&... args) {
  return detail::join({args...});
}

}  // namespace ringlet
