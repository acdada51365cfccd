#include "ringlet/autograd/node.h"

#include <atomic>

#include "ringlet/autograd/leaf_recorder.h"
#include "ringlet/autograd/side_branch.h"
#include "ringlet/core/ops/elementwise.h"

namespace ringlet::autograd {
namespace {

std::atomic<std::uint64_t> next_sequence{1};
thread_local std::vector<std::shared_ptr<Node>>* dying = nullptr;

}  // namespace

Node::Node(const char* name, const Tensor& output, const std::vector<Variable>& inputs,
           Backward backward)
    : name_(name),
      shape_(output.shape()),
      dtype_(output.dtype()),
      device_(output.device()),
      sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      backward_(std::move(backward)) {
  for (const Variable& input : inputs) {
    Edge edge;
    if (input.requires_grad()) {
      edge.node = input.state()->node;
      if (!edge.node) edge.leaf = input.state();
    }
    edges_.push_back(std::move(edge));
  }
}

// The release of a long graph must not recurse once per node: the outermost destructor collects the
// parents and releases them sequentially.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> mine;
  const bool outermost = dying == nullptr;
  if (outermost) dying = &mine;
  for (Edge& edge : edges_)
    if (edge.node) dying->push_back(std::move(edge.node));
  if (!outermost) return;
  while (!mine.empty()) {
    const std::shared_ptr<Node> next = std::move(mine.back());
    mine.pop_back();
  }
  dying = nullptr;
}

bool needs_recording(const std::vector<Variable>& inputs) {
  bool needed = false;
  for (const Variable& input : inputs) {
    LeafRecorder::note(input);
    needed = needed || input.requires_grad();
  }
  return needed && grad_enabled();
}

Variable made_by(const char* name, Tensor result, const std::vector<Variable>& inputs,
                 Node::Backward backward) {
  auto node = std::make_shared<Node>(name, result, inputs, std::move(backward));
  Variable out(std::move(result));
  out.state()->requires_grad = true;
  out.state()->node = std::move(node);
  return out;
}

Saved::Saved(const Tensor& tensor)
    : tensor_(tensor), storage_(tensor.storage()), version_(tensor.version()) {}

Saved::Saved(const Variable& variable) {
  if (!variable.defined()) return;
  if (variable.is_leaf()) {
    leaf_ = variable.state();
  } else {
    tensor_ = variable.tensor();
  }
  storage_ = variable.tensor().storage();
  version_ = variable.tensor().version();
}

const Tensor& Saved::tensor(const Gradients& grads) const {
  const Tensor& now = leaf_ ? leaf_->data : tensor_;
  if (now.storage() == storage_.lock() && now.version() != version_) {
    const std::string which = leaf_ && !leaf_->name.empty() ? "parameter " + leaf_->name
                                                            : str("a ", now.shape(), " tensor");
    fail("[", grads.node_.name(), "] ", which,
         " was written to after forward, and backward needs it");
  }
  return now;
}

Gradients::Gradients(const Node& node) : node_(node), all_(node.edges_.size()) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const Edge& edge = node.edges_[i];
    all_[i].needed_ = edge.node || edge.leaf;
    all_[i].node_ = &node;
    all_[i].input_ = i;
    all_[i].maker_ = edge.node.get();
    all_[i].leaf_ = edge.leaf.get();
  }
}

Gradient& Gradients::operator[](std::size_t input) {
  RINGLET_CHECK(input < size(), "[", node_.name(), "] gradient of input ", input,
                ": the number of inputs is ", size());
  return all_[input];
}

void Gradients::check_written() const {
  for (const Gradient& one : all_)
    RINGLET_CHECK(!one.needed_ || one.written_, one.description(),
                  " is needed, and backward does not set it");
}

std::string Gradient::description() const {
  if (!node_) return "[backward] gradient";
  const std::string of = str("[", node_->name(), "] gradient of input ", input_);
  return leaf_ && !leaf_->name.empty() ? of + " (parameter " + leaf_->name + ")" : of;
}

void Gradient::check_fits(const Shape& shape, Device device) const {
  RINGLET_CHECK(needed_ && !written_, description(), " is written once, where needed");
  const Shape& expected = leaf_ ? leaf_->data.shape() : maker_->shape_;
  const Device expected_device = leaf_ ? leaf_->data.device() : maker_->device_;
  RINGLET_CHECK(shape == expected, description(), " is ", shape, ", expected ", expected);
  RINGLET_CHECK(device == expected_device, description(), " is on ", device, ", expected ",
                expected_device);
}

GradientSink Gradient::sink(const Shape& shape, DType dtype, Device device) {
  check_fits(shape, device);
  written_ = true;
  if (leaf_) {
    if (!leaf_->grad_buffer.defined())
      if (const auto observer = leaf_->observer.lock()) observer->needs_grad_buffer(*leaf_);
    if (!leaf_->grad_buffer.defined()) leaf_->grad_buffer = empty_like(leaf_->data);
    leaf_->dense = leaf_->dense || !rows_known_;
    const double beta = leaf_->has_grad ? 1 : 0;
    if (leaf_->has_grad) SideBranch::join_current();
    leaf_->has_grad = true;
    leaf_->applied = false;
    return {leaf_->grad_buffer, beta};
  }
  RINGLET_CHECK(dtype == maker_->dtype_, description(), " is ", dtype, ", expected ",
                maker_->dtype_);
  const bool adds = pending_->defined();
  // A sum without other references belongs to the engine from here on.
  const bool is_owned = *owned_ || (adds && pending_->storage().use_count() == 1 &&
                                    !pending_->storage()->is_shared_outside());
  if (!adds) *pending_ = empty(shape, dtype, device);
  if (adds && !is_owned) *pending_ = pending_->clone();
  *owned_ = true;
  return {*pending_, adds ? 1.0 : 0.0};
}

GradientSink Gradient::sink_of(const Tensor& parameter) {
  if (!parameter.defined() || !needed()) return {};
  return sink(parameter.shape(), parameter.dtype(), parameter.device());
}

void Gradient::only_rows(const Tensor& rows) {
  if (!leaf_) return;
  rows_known_ = true;
  if (const auto observer = leaf_->observer.lock()) observer->only_rows(*leaf_, rows);
}

void Gradient::set(Tensor grad) {
  RINGLET_CHECK(grad.defined(), description(), " is an undefined tensor; see Gradient::skip");
  if (!leaf_) grad = grad.to(maker_->dtype_);
  if (!leaf_ && !pending_->defined()) {
    check_fits(grad.shape(), grad.device());
    written_ = true;
    *pending_ = std::move(grad);
    *owned_ = false;
    return;
  }
  GradientSink to = sink(grad.shape(), grad.dtype(), grad.device());
  if (to.beta == 0) {
    to.out.copy_(grad);
  } else {
    axpby(to.out, 1, grad.to(to.out.dtype()), to.beta);
  }
}

}  // namespace ringlet::autograd
