#include "ringlet/autograd/variable.h"

#include <algorithm>
#include <utility>

namespace ringlet::autograd {
namespace {

thread_local bool recording = true;
thread_local LeafRecorder* recorder = nullptr;

VariableState& leaf(const std::shared_ptr<VariableState>& state) {
  RINGLET_CHECK(state && !state->node, "[variable] only a leaf has this");
  return *state;
}

}  // namespace

HookHandle& HookHandle::operator=(HookHandle&& other) noexcept {
  if (this != &other) {
    remove();
    state_ = std::move(other.state_);
    id_ = std::exchange(other.id_, 0);
  }
  return *this;
}

void HookHandle::remove() {
  if (const auto state = state_.lock())
    std::erase_if(state->hooks, [&](const VariableState::Hook& hook) { return hook.id == id_; });
  state_.reset();
}

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
  VariableState& state = leaf(state_);
  state.hooks.push_back({state.next_hook, std::move(hook)});
  return HookHandle(state_, state.next_hook++);
}

void Variable::set_observer(std::weak_ptr<LeafObserver> observer) const {
  leaf(state_).observer = std::move(observer);
}

bool grad_enabled() { return recording; }
GradMode::GradMode(bool enabled) : previous_(std::exchange(recording, enabled)) {}
GradMode::~GradMode() { recording = previous_; }

LeafRecorder::LeafRecorder() : previous_(std::exchange(recorder, this)) {}
LeafRecorder::~LeafRecorder() { recorder = previous_; }

bool LeafRecorder::active() { return recorder != nullptr; }

void LeafRecorder::note(const Variable& input) {
  if (!recorder || !input.requires_grad() || !input.is_leaf()) return;
  for (const Variable& known : recorder->leaves_)
    if (known == input) return;
  recorder->leaves_.push_back(input);
}

}  // namespace ringlet::autograd
