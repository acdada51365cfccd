#include "ringlet/core/base/str.h"

#include <sstream>

namespace ringlet::detail {

template <class T>
void Argument::write_number(std::ostream& out, const void* value) {
  out << *static_cast<const T*>(value);
}
#define RINGLET_NUMBER(T) template void Argument::write_number<T>(std::ostream&, const void*);
RINGLET_NUMBER(bool)
RINGLET_NUMBER(char)
RINGLET_NUMBER(signed char)
RINGLET_NUMBER(unsigned char)
RINGLET_NUMBER(short)
RINGLET_NUMBER(unsigned short)
RINGLET_NUMBER(int)
RINGLET_NUMBER(unsigned)
RINGLET_NUMBER(long)
RINGLET_NUMBER(unsigned long)
RINGLET_NUMBER(long long)
RINGLET_NUMBER(unsigned long long)
RINGLET_NUMBER(float)
RINGLET_NUMBER(double)
#undef RINGLET_NUMBER

void Argument::write(std::ostream& out) const {
  if (write_ == nullptr) {
    out << text_;
  } else {
    write_(out, value_);
  }
}

std::string join(std::initializer_list<Argument> arguments) {
  std::ostringstream out;
  for (const Argument& argument : arguments) argument.write(out);
  return out.str();
}

}  // namespace ringlet::detail
