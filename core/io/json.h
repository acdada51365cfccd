// JSON values, read and written. Objects keep the order of their members.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ringlet {

/// Error for a value of another type, and for a text that is not UTF-8.
class Json {
 public:
  using List = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;
  enum class Repeated { last_counts, refused };  // keys that occur twice in an object

  /// InputError, "SOURCE: expected JSON: ...", if the text is none. `source` is a file's name.
  static Json parse(std::string_view text, const std::string& source = "JSON",
                    Repeated repeated = Repeated::last_counts);
  /// Empty if the text is no JSON.
  static std::optional<Json> try_parse(std::string_view text,
                                       Repeated repeated = Repeated::last_counts);
  static Json array(std::initializer_list<Json> values = {}) { return List(values); }
  static Json object() { return Object(); }

  Json(std::nullptr_t = nullptr) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(List list) : value_(std::move(list)) {}
  Json(Object members) : value_(std::move(members)) {}
  /// An object if each value is a list of a text and a value, else a list.
  Json(std::initializer_list<Json> values);
  template <class T>
  requires std::integral<T> || std::floating_point<T> Json(T number) {
    if constexpr (std::same_as<T, bool>)
      value_ = number;
    else if constexpr (std::floating_point<T>)
      value_ = double{number};
    else if constexpr (std::unsigned_integral<T>)
      value_ = std::uint64_t{number};
    else
      value_ = std::int64_t{number};
  }
  /// A list, or an object of a map.
  template <class T>
  requires requires(const T& values) {
    typename T::value_type;
    values.size();
  } &&(!std::convertible_to<T, std::string_view>)Json(const T& values) {
    if constexpr (requires { typename T::mapped_type; }) {
      Object& members = value_.emplace<Object>();
      for (const auto& [key, value] : values) members.emplace_back(key, value);
    } else {
      List& list = value_.emplace<List>();
      for (const auto& value : values) list.emplace_back(value);
    }
  }

  bool is_null() const { return holds<std::nullptr_t>(); }
  bool is_boolean() const { return holds<bool>(); }
  bool is_number() const { return is_number_integer() || holds<double>(); }
  bool is_number_integer() const { return holds<std::int64_t>() || is_number_unsigned(); }
  bool is_number_unsigned() const { return holds<std::uint64_t>(); }  // as read: 0 or more
  bool is_string() const { return holds<std::string>(); }
  bool is_array() const { return holds<List>(); }
  bool is_object() const { return holds<Object>(); }
  bool is_structured() const { return is_array() || is_object(); }
  const char* type_name() const;

  bool boolean() const;
  std::int64_t integer() const;
  std::uint64_t unsigned_integer() const;
  double number() const;
  const std::string& text() const;
  const List& list() const;
  const Object& items() const;
  List& list();
  Object& items();
  /// Numbers, text, bool, containers of them, or a Json.
  template <class T>
  T get() const;

  /// Null if there is no such key.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json& at(std::string_view key) const;
  Json& at(std::string_view key) { return const_cast<Json&>(std::as_const(*this).at(key)); }
  const Json& operator[](std::string_view key) const { return at(key); }
  /// Adds a null for a new key; null itself becomes an object.
  Json& operator[](std::string_view key);
  const Json& at(std::size_t i) const;
  Json& at(std::size_t i) { return const_cast<Json&>(std::as_const(*this).at(i)); }
  const Json& operator[](std::size_t i) const { return at(i); }
  Json& operator[](std::size_t i) { return at(i); }

  /// Values of a list, members of an object, 0 for null, 1 otherwise.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  /// Null has no values.
  List::const_iterator begin() const { return values().begin(); }
  List::const_iterator end() const { return values().end(); }
  List::iterator begin() { return list().begin(); }
  List::iterator end() { return list().end(); }
  const Json& back() const { return list().back(); }
  Json& back() { return list().back(); }
  /// Null becomes a list.
  void push_back(Json value);
  /// Replaces or adds the members of `other`.
  void update(const Json& other);
  void erase(std::string_view key);

  /// One line, or lines indented by so many spaces.
  std::string dump(int indent = -1) const;
  friend bool operator==(const Json& a, const Json& b);
  /// Orders numbers, and texts; other pairs are unordered.
  friend std::partial_ordering operator<=>(const Json& a, const Json& b);
  friend std::ostream& operator<<(std::ostream& out, const Json& json);

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  const List& values() const;
  [[noreturn]] void fail_range() const;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, List, Object>
      value_;
};

/// The text in quotes; U+FFFD replaces what is not UTF-8.
std::string json_quoted(std::string_view text);
/// The version of the library that reads JSON.
std::string json_version();

template <class T>
T Json::get() const {
  if constexpr (std::same_as<T, Json>) {
    return *this;
  } else if constexpr (std::same_as<T, bool>) {
    return boolean();
  } else if constexpr (std::integral<T>) {
    if constexpr (sizeof(T) < sizeof(std::int64_t))
      if (static_cast<T>(integer()) != integer()) fail_range();
    if constexpr (std::unsigned_integral<T>)
      return static_cast<T>(unsigned_integer());
    else
      return static_cast<T>(integer());
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(number());
  } else if constexpr (std::same_as<T, std::string>) {
    return text();
  } else if constexpr (requires { typename T::mapped_type; }) {
    T all;
    for (const auto& [key, value] : items())
      all.emplace(key, value.template get<typename T::mapped_type>());
    return all;
  } else {
    T all;
    for (const Json& value : list()) all.insert(all.end(), value.get<typename T::value_type>());
    return all;
  }
}

}  // namespace ringlet
