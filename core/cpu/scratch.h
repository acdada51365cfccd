// Memory for the duration of a scope, taken from a stack that every thread keeps. After a thread's
// largest need, taking scratch costs no system call and no page fault.
#pragma once

#include <cstddef>

namespace ringlet::cpu {

class Scratch {
 public:
  /// `nbytes` uninitialised bytes, aligned to 64. Local variables only: freed in reverse order.
  explicit Scratch(std::size_t nbytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  __attribute__((always_inline)) T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::size_t chunk_, top_;  // the state of the stack before
  void* data_;
};

/// The bytes that the stacks of all threads hold now.
std::size_t scratch_bytes();

}  // namespace ringlet::cpu
