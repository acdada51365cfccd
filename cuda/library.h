// Libraries that a program needs for some of its work only: looked for when that begins.
#pragma once

#include <string>
#include <type_traits>

namespace ringlet::cuda {

/// Looks where programs look for libraries, then in the toolkit of the build. Null where there is
/// none, with the loader's words in `missing`.
void* open_library(const std::string& name, std::string& missing);
/// Null where the library has no such function.
void* find_function(void* library, const char* name);

/// Sets `function`; false where the library has none of the name.
template <class Function>
bool find_function(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(find_function(library, name));
  return function != nullptr;
}

}  // namespace ringlet::cuda
