#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include "ringlet/autograd/node.h"
#include "ringlet/autograd/side_branch.h"

namespace ringlet::autograd {

class Engine {
 public:
  explicit Engine(BackwardOptions options) : options_(options) {}

  void run(const Variable& root, const Tensor& grad) {
    const std::shared_ptr<Node>& first = root.state()->node;
    if (!first) return run_leaf(root, grad);
    count_uses(first);
    try {
      if (options_.fire_hooks) announce();
      nodes_.at(first.get()).grad = grad;
      ready_.push(first);
      run_ready();
      if (options_.fire_hooks) SideBranch::join_current();
      for (const auto& [observer, leaves] : observers_) observer->backward_ends();
    } catch (...) {
      for (const auto& [observer, leaves] : observers_) observer->backward_failed();
      throw;
    }
  }

 private:
  struct Pending {
    std::int64_t uses = 0;  // consumers with a backward still to run
    Tensor grad;
    bool owned = false;
  };
  struct Earlier {
    bool operator()(const auto& a, const auto& b) const { return a->sequence() < b->sequence(); }
  };

  static void run_leaf(const Variable& root, const Tensor& grad) {
    Gradient slot;
    slot.needed_ = true;
    slot.leaf_ = root.state().get();
    slot.set(grad);
  }

  // Counts, for every node and leaf below `root`, the nodes that use it.
  void count_uses(const std::shared_ptr<Node>& root) {
    std::vector<Node*> stack{root.get()};
    nodes_[root.get()];
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      RINGLET_CHECK(!node->released_, "[backward] the graph below ", node->name(),
                    " was already used; pass retain_graph to run backward twice");
      for (const Edge& edge : node->edges_) {
        if (edge.leaf) ++leaf_uses_[edge.leaf.get()];
        if (!edge.node) continue;
        const bool is_new = nodes_.find(edge.node.get()) == nodes_.end();
        ++nodes_[edge.node.get()].uses;
        if (is_new) stack.push_back(edge.node.get());
      }
    }
  }

  // Reports to each observer the leaves that this backward reaches.
  void announce() {
    for (const auto& [leaf, uses] : leaf_uses_)
      if (const auto observer = leaf->observer.lock()) observers_[observer].push_back(leaf);
    for (const auto& [observer, leaves] : observers_) observer->backward_begins(leaves);
  }

  void run_ready() {
    while (!ready_.empty()) {
      const std::shared_ptr<Node> node = ready_.top();
      ready_.pop();
      step(*node);
    }
  }

  void step(Node& node) {
    Pending here = std::move(nodes_.at(&node));
    RINGLET_CHECK(!node.released_, "[backward] ", node.name(),
                  " was used by a backward inside this one");
    if (here.grad.defined()) {
      Gradients grads(node);
      point_at_sums(grads);
      node.backward_(here.grad, grads);
      grads.check_written();
    }
    here.grad = Tensor();
    // Without its edges, a used node does not keep its parents alive: their saved tensors are freed
    // as soon as they have run, too.
    node.released_ = !options_.retain_graph;
    const std::vector<Edge> edges =
        options_.retain_graph ? node.edges_ : std::exchange(node.edges_, {});
    for (const Edge& edge : edges) {
      if (edge.leaf && --leaf_uses_.at(edge.leaf.get()) == 0) complete(*edge.leaf);
      if (edge.node && --nodes_.at(edge.node.get()).uses == 0) ready_.push(edge.node);
    }
  }

  void point_at_sums(Gradients& grads) {
    for (Gradient& grad : grads.all_) {
      if (!grad.maker_) continue;
      Pending& pending = nodes_.at(grad.maker_);
      grad.pending_ = &pending.grad;
      grad.owned_ = &pending.owned;
    }
  }

  void complete(VariableState& leaf) {
    if (!options_.fire_hooks || !leaf.has_grad) return;
    std::erase_if(leaf.hooks, [](const auto& hook) { return hook.expired(); });
    SideBranch::leaf_is_complete(leaf);
    const auto hooks = leaf.hooks;  // a hook may add others
    for (const auto& hook : hooks)
      if (const HookHandle call = hook.lock()) (*call)();
    if (const auto observer = leaf.observer.lock()) observer->grad_ready(leaf);
  }

  BackwardOptions options_;
  std::unordered_map<const Node*, Pending> nodes_;
  std::unordered_map<VariableState*, std::int64_t> leaf_uses_;
  std::map<std::shared_ptr<LeafObserver>, std::vector<VariableState*>, Earlier> observers_;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Earlier> ready_;
};

void run_backward(const Variable& root, const Tensor& grad, BackwardOptions options) {
  RINGLET_CHECK(root.requires_grad(), "[backward] this variable does not require a gradient");
  Tensor start = grad;
  if (start.defined()) {
    check_shape("backward", "the given gradient", start, root.shape());
    check_same_device("backward", root.tensor(), start);
    start = start.to(root.dtype());
  } else {
    RINGLET_CHECK_EQ(root.numel(), std::int64_t{1},
                     "[backward] without a gradient the variable must be one element");
    start = ones(root.shape(), root.dtype(), root.device());
  }
  const GradMode no_grad(false);
  Engine(options).run(root, start);
}

void Variable::backward(const Tensor& grad, bool retain_graph) const {
  run_backward(*this, grad, {.retain_graph = retain_graph});
}

}  // namespace ringlet::autograd
