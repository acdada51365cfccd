#include "ringlet/autograd/split_backward.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "ringlet/autograd/node.h"

namespace ringlet::autograd {

/// The part of a node that waits until its output's gradient is there.
struct LeafGradients::Postponed {
  std::vector<Edge> leaves;  // by input; empty for other inputs
  Node::Backward backward;
  Tensor grad;  // of the output; undefined: none has reached it

  /// Takes the leaves but `inputs` out of the graph; null if there are none.
  static std::shared_ptr<Postponed> of(Node& node, const std::vector<Variable>& inputs) {
    const auto is_later = [&](const Edge& edge) {
      return edge.leaf && std::ranges::find(inputs, edge.leaf, &Variable::state) == inputs.end();
    };
    if (!std::ranges::any_of(node.edges_, is_later)) return nullptr;
    RINGLET_CHECK(node.name() != std::string("checkpoint"),
                  "[backward_to] a checkpointed segment computes all its gradients at once");
    const auto part = std::make_shared<Postponed>();
    for (Edge& edge : node.edges_)
      part->leaves.push_back(is_later(edge) ? std::exchange(edge, {}) : Edge());
    part->backward = std::move(node.backward_);
    node.backward_ = [part](const Tensor& grad, Gradients& grads) {
      part->grad = grad;
      for (std::size_t i = 0; i < grads.size(); ++i)
        if (grads[i].needed()) return part->backward(grad, grads);
    };
    return part;
  }
  /// The output of `node`. Its only inputs are now the leaves.
  Variable output(const std::shared_ptr<Node>& node) {
    node->edges_ = std::move(leaves);
    node->backward_ = std::move(backward);
    node->released_ = false;
    Variable output(grad);  // of the output's shape
    output.state()->requires_grad = true;
    output.state()->node = node;
    return output;
  }
};

LeafGradients backward_to(const std::vector<Variable>& inputs, const Variable& root,
                          const Tensor& grad) {
  for (const Variable& input : inputs)
    RINGLET_CHECK(input.is_leaf(), "[backward_to] an input is no leaf");
  LeafGradients later;
  std::unordered_set<Node*> seen;
  std::vector<std::shared_ptr<Node>> stack;
  const auto visit = [&](const std::shared_ptr<Node>& node) {
    if (node && seen.insert(node.get()).second) stack.push_back(node);
  };
  visit(root.state()->node);
  while (!stack.empty()) {
    const std::shared_ptr<Node> node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->edges()) visit(edge.node);
    if (auto part = LeafGradients::Postponed::of(*node, inputs))
      later.parts_.emplace_back(node, std::move(part));
  }
  run_backward(root, grad, {});
  std::erase_if(later.parts_, [](const auto& part) { return !part.second->grad.defined(); });
  return later;
}

void LeafGradients::run() {
  if (parts_.empty()) return;
  std::vector<Variable> outputs;
  std::vector<Tensor> grads;
  for (const auto& [node, part] : std::exchange(parts_, {})) {
    grads.push_back(part->grad);
    outputs.push_back(part->output(node));
  }
  const Tensor one = ones({1});
  made_by("leaf gradients", one, outputs, [grads](const Tensor&, Gradients& to) {
    for (std::size_t i = 0; i < grads.size(); ++i) to[i].set(grads[i]);
  }).backward(one);
}

}  // namespace ringlet::autograd
