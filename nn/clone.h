// Copies of modules on other devices.
#pragma once

#include <map>
#include <memory>

#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// A copy on another device, with separate parameters and neither hooks nor gradients. Error if a
/// class below has no blank_copy.
std::shared_ptr<Module> clone(const Module& module, Device device);

/// Copies the parts of a module during clone(). A part that several modules hold is copied once.
class Cloner {
 public:
  template <class M>
  std::shared_ptr<M> operator()(const std::shared_ptr<M>& module) {
    std::shared_ptr<Module>& copy = copies_[module.get()];
    if (!copy) copy = module->blank_copy(*this);
    return std::dynamic_pointer_cast<M>(copy);
  }
  /// Gives a blank copy the replaced layers, modes and buffers of its original, and of all below.
  void complete(const Module& original, Module& copy, Device device);

 private:
  std::map<const Module*, std::shared_ptr<Module>> copies_;
};

}  // namespace ringlet::nn
