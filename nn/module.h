// Module: named parameters and child modules, in the order they were registered. Names are dotted
// paths ("encoder.layer.3.attention.attn.q.weight"), the Hugging Face names where those exist.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/autograd/variable.h"

namespace ringlet::nn {

/// A leaf with a name. It is a handle: copies are the same parameter. If it is pointed at other
/// memory (an arena, a shard's unit buffer), copies follow.
using Parameter = autograd::Variable;
/// State that no gradient trains, e.g. a running mean. It is a handle like Parameter, which moves
/// with the module to another device; each copy of the module has its own.
using Buffer = autograd::Variable;

struct NamedParameter {
  std::string name;
  Parameter parameter;
};

class Arena;
class Cloner;
class Module;
class Replaceable;

/// Hooks around a module's forward and backward; empty functions are skipped.
struct ModuleHooks {
  std::function<void(Module&)> pre_forward;
  std::function<void(Module&)> post_forward;
  std::function<void(Module&)> pre_backward;  // before the gradient enters the module
  /// forward or a hook threw; perhaps post_forward itself, so that this one is called after it.
  std::function<void(Module&)> forward_failed = {};
};

class Module : public std::enable_shared_from_this<Module> {
 public:
  Module() = default;
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The class, as used to wrap units by class ("MPNetLayer").
  virtual const char* kind() const { return "Module"; }
  /// Whether the parameters below form a unit: laid out, reduced and sharded together.
  virtual bool is_unit() const { return false; }
  /// Whether forward computes a loss. A strategy requires gradients of a loss's parameters only if
  /// that loss ran.
  virtual bool is_loss() const { return false; }
  /// Copies settings that are no parameters from `original`, which this module is a copy of. A
  /// replica calls it before each forward.
  virtual void take_settings(const Module& /*original*/) {}
  /// The dtype of the activations of this module and all below, whatever the parameters' dtype.
  virtual DType compute_dtype() const { return DType::f32; }
  /// Whether only matrix products read this parameter of the module itself. With bf16 activations
  /// they round it to bf16, so below a module that computes in bf16 a strategy may move it rounded.
  virtual bool only_multiplied(const Parameter&) const { return false; }

  /// All parameters below, each once (a tied one under its first name).
  std::vector<NamedParameter> named_parameters() const;
  std::vector<Parameter> parameters() const;
  /// Non-trainable tensors that belong to the saved state, each once (one of a module that is held
  /// in several places under its first name).
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;
  /// The parameter or buffer called `name`; throws with the nearest names when there is none.
  Parameter parameter(const std::string& name) const;
  Buffer buffer(const std::string& name) const;
  std::int64_t num_parameters() const;
  /// The first parameter's device; `otherwise` without parameters.
  Device device(Device otherwise = {}) const;

  void train(bool training = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  void zero_grad() const;
  /// Moves every parameter and buffer.
  void to(Device device);
  /// For nn::clone: a module built like this one with arbitrary values in its parameters. Modules
  /// that it shares or takes from outside come from the cloner. Error unless a class overrides it.
  virtual std::shared_ptr<Module> blank_copy(Cloner& cloner) const;

  /// Calls visit(path, module) for this module and all below, parents first.
  void visit(const std::function<void(const std::string&, Module&)>& visit,
             const std::string& prefix = "");

  /// The dotted path from the outermost module that holds this one, the first where there are
  /// several: what named_parameters() of the outermost begins with.
  const std::string& path() const { return path_; }
  /// A number for this module's place in the model, the same in every process: keys its dropout.
  std::uint32_t site() const;

  /// A user's hooks run inside the strategy's: where parameters are whole.
  const ModuleHooks& hooks() const { return hooks_; }
  void set_hooks(ModuleHooks hooks) { hooks_ = std::move(hooks); }
  const ModuleHooks& strategy_hooks() const { return strategy_hooks_; }
  void set_strategy_hooks(ModuleHooks hooks) { strategy_hooks_ = std::move(hooks); }
  /// More than 0: the strategy of this module sums no gradients. NoSync counts it.
  int no_syncs() const { return no_syncs_; }
  void count_no_sync(int change) { no_syncs_ += change; }
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  void set_arena(std::shared_ptr<Arena> arena) { arena_ = std::move(arena); }

 protected:
  Parameter register_parameter(const std::string& name, Tensor value);
  /// One that another module has, too.
  void register_parameter(const std::string& name, const Parameter& shared);
  Buffer register_buffer(const std::string& name, Tensor value);
  /// An empty name adds nothing to the path: a wrapper renames nothing.
  template <class M>
  std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> module) {
    add_child(name, module);
    return module;
  }

  /// Runs `forward` between the hooks. If its result is a recorded variable and there is a
  /// pre_backward hook, a node on the result calls it.
  template <class Forward>
  auto enter(Forward&& forward) {
    try {
      for (const ModuleHooks* of : {&strategy_hooks_, &hooks_})
        if (of->pre_forward) of->pre_forward(*this);
      auto result = forward();
      if constexpr (std::is_same_v<decltype(result), autograd::Variable>)
        result = before_backward(std::move(result));
      for (const ModuleHooks* of : {&hooks_, &strategy_hooks_})
        if (of->post_forward) of->post_forward(*this);
      return result;
    } catch (...) {
      for (const ModuleHooks* of : {&hooks_, &strategy_hooks_})
        if (of->forward_failed) of->forward_failed(*this);
      throw;
    }
  }

 private:
  friend class Cloner;
  friend class EvalGuard;
  friend class Replaceable;

  void add_child(const std::string& name, std::shared_ptr<Module> module);
  void adopt(Module& child);
  Module& outermost();
  void name_all();
  std::vector<std::pair<std::string, Buffer>> buffer_handles() const;
  autograd::Variable before_backward(autograd::Variable result);

  std::vector<NamedParameter> parameters_;
  std::vector<std::pair<std::string, Buffer>> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  Module* parent_ = nullptr;
  std::string path_;
  bool training_ = true;
  ModuleHooks hooks_, strategy_hooks_;
  int no_syncs_ = 0;
  std::shared_ptr<Arena> arena_;
};

/// Gives a module `operator()`, which runs its `forward` between the hooks:
///
///   struct Scale : Layer<Scale> {
///     Parameter factor = register_parameter("factor", ones({1}));
///     Variable forward(const Variable& x) { return x * factor; }
///   };
template <class Derived, class Base = Module>
class Layer : public Base {
 public:
  using Base::Base;
  template <class... Args>
  auto operator()(Args&&... args) {
    return this->enter(
        [&] { return static_cast<Derived*>(this)->forward(std::forward<Args>(args)...); });
  }
};

/// A module of one tensor that is called through its base class: what replaces a Linear inside an
/// encoder, for example.
class UnaryModule : public Module {
 public:
  Variable operator()(const Variable& x) {
    return enter([&] { return forward(x); });
  }
  virtual Variable forward(const Variable& x) = 0;
};

}  // namespace ringlet::nn
