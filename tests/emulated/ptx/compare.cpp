// Comparisons and selections (PTX manual, 9.7.5). Comparisons with NaN are false unless they end in
// u.
#include <cmath>

#include "operations.h"

namespace ringlet::emulated {
namespace {

template <class T>
bool unordered(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::isunordered(a, b);
  return false;
}

struct Eq {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static bool of(T a, T b) {
    return a != b && !unordered(a, b);
  }
};
struct Lt {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  static bool of(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <class T>
  static bool of(T a, T b) {
    return a >= b;
  }
};
struct Nan {
  template <class T>
  static bool of(T a, T b) {
    return unordered(a, b);
  }
};
struct Num {
  template <class T>
  static bool of(T a, T b) {
    return !unordered(a, b);
  }
};
template <class Ordered>
struct OrNan {
  template <class T>
  static bool of(T a, T b) {
    return unordered(a, b) || Ordered::of(a, b);
  }
};

template <class Compare, class T>
void run_compare(Warp& warp, const Instruction& at, Mask mask) {
  const Cell<T>*a = cells<Cell<T>>(warp, at.in[0]), *b = cells<Cell<T>>(warp, at.in[1]);
  Mask holds = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    holds |= Mask{Compare::of(from_cell<T>(a[lane]), from_cell<T>(b[lane]))} << lane;
  set_predicate(warp, at.out[0], holds, mask);
  if (at.out[1] != kNone) set_predicate(warp, at.out[1], ~holds, mask);
}

template <class T>
void run_select(Warp& warp, const Instruction& at, Mask mask) {
  const T *a = cells<T>(warp, at.in[0]), *b = cells<T>(warp, at.in[1]);
  const Mask chosen = predicate(warp, at.in[2]);
  put_lanes(result<T>(warp, at.out[0]), mask,
            [&](int lane) { return chosen >> lane & 1 ? a[lane] : b[lane]; });
}

template <class Compare, class... T>
void add_compare(Operations& to, const std::string& name) {
  for_types<T...>([&]<class Type>(Type) {
    const auto bytes = static_cast<std::uint8_t>(sizeof(Type));
    const Operation operation{&run_compare<Compare, Type>, 0, {bytes, bytes}};
    to["setp." + name + suffix<Type>()] = operation;
    if constexpr (std::is_unsigned_v<Type>)
      to["setp." + name + ".b" + std::to_string(8 * bytes)] = operation;
  });
}
template <class Compare>
void add_to_all(Operations& to, const std::string& name) {
  add_compare<Compare, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t,
              std::uint64_t, float, double>(to, name);
}
template <class Compare>
void add_to_floats(Operations& to, const std::string& name) {
  add_compare<Compare, float, double>(to, name);
}

}  // namespace

void add_compare_operations(Operations& to) {
  add_to_all<Eq>(to, "eq");
  add_to_all<Ne>(to, "ne");
  add_to_all<Lt>(to, "lt");
  add_to_all<Le>(to, "le");
  add_to_all<Gt>(to, "gt");
  add_to_all<Ge>(to, "ge");
  add_to_floats<OrNan<Eq>>(to, "equ");
  add_to_floats<OrNan<Ne>>(to, "neu");
  add_to_floats<OrNan<Lt>>(to, "ltu");
  add_to_floats<OrNan<Le>>(to, "leu");
  add_to_floats<OrNan<Gt>>(to, "gtu");
  add_to_floats<OrNan<Ge>>(to, "geu");
  add_to_floats<Num>(to, "num");
  add_to_floats<Nan>(to, "nan");
  for (const char* type : {"b", "u", "s", "f"}) {
    to["selp." + std::string(type) + "16"] = {&run_select<std::uint32_t>, 2, {2, 2, 0}};
    to["selp." + std::string(type) + "32"] = {&run_select<std::uint32_t>, 4, {4, 4, 0}};
    to["selp." + std::string(type) + "64"] = {&run_select<std::uint64_t>, 8, {8, 8, 0}};
  }
}

}  // namespace ringlet::emulated
