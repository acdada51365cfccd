// fmt without its shared library, for a wheel: -fkeep-inline-functions makes symbols of the
// functions in its headers.
#include <fmt/format.h>
