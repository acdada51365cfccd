// Memory for the length of a scope, taken from a stack that every thread keeps: once a thread has
// seen its largest need, taking scratch costs no system call and no page fault.
#pragma once

#include <cstddef>

namespace ringlet::cpu {

class Scratch {
 public:
  /// `nbytes` uninitialised bytes, aligned to 64. A local variable: scratch ends in reverse order.
  explicit Scratch(std::size_t nbytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  __attribute__((always_inline)) T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::size_t chunk_, top_;  // where the stack stood before
  void* data_;
};

/// What all threads' stacks hold now.
std::size_t scratch_bytes();

}  // namespace ringlet::cpu
