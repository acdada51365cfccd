#include "ringlet/autograd/variable.h"

#include <utility>

namespace ringlet::autograd {
namespace {

thread_local bool recording = true;

VariableState& leaf(const std::shared_ptr<VariableState>& state) {
  RINGLET_CHECK(state && !state->node, "[variable] only a leaf has this");
  return *state;
}

}  // namespace

Variable::Variable(Tensor data, bool requires_grad) : state_(std::make_shared<VariableState>()) {
  state_->data = std::move(data);
  set_requires_grad(requires_grad);
}

const Tensor& Variable::tensor() const {
  RINGLET_CHECK(defined(), "[variable] an undefined variable has no tensor");
  return state_->data;
}

bool Variable::requires_grad() const { return state_ && state_->requires_grad; }
bool Variable::is_leaf() const { return state_ && !state_->node; }

Tensor Variable::grad() const {
  const VariableState& state = leaf(state_);
  return state.has_grad ? state.grad_buffer : Tensor();
}

void Variable::zero_grad() const {
  VariableState& state = leaf(state_);
  state.has_grad = state.applied = state.partial = false;
}

void Variable::set_grad_buffer(Tensor buffer) const {
  VariableState& state = leaf(state_);
  check_shape("set_grad_buffer", "gradient", buffer, state.data.shape());
  state.grad_buffer = std::move(buffer);
  state.has_grad = false;
}

const Tensor& Variable::grad_buffer() const { return leaf(state_).grad_buffer; }

void Variable::set_tensor(Tensor data) const {
  VariableState& state = leaf(state_);
  check_shape("set_tensor", "data", data, state.data.shape());
  state.data = std::move(data);
}

void Variable::set_requires_grad(bool requires_grad) const {
  VariableState& state = leaf(state_);
  RINGLET_CHECK(!requires_grad || is_floating(state.data.dtype()), "[variable] a ",
                state.data.dtype(), " tensor cannot require a gradient");
  state.requires_grad = requires_grad;
}

Tensor& Variable::mutable_tensor() const { return leaf(state_).data; }
const std::string& Variable::name() const { return leaf(state_).name; }
void Variable::set_name(std::string name) const { leaf(state_).name = std::move(name); }

HookHandle Variable::register_ready_hook(std::function<void()> hook) const {
  auto handle = std::make_shared<const std::function<void()>>(std::move(hook));
  leaf(state_).hooks.push_back(handle);
  return handle;
}

bool grad_enabled() { return recording; }
GradMode::GradMode(bool enabled) : previous_(std::exchange(recording, enabled)) {}
GradMode::~GradMode() { recording = previous_; }

}  // namespace ringlet::autograd
