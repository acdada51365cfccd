#include "ringlet/autograd/dot.h"

#include <algorithm>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "ringlet/autograd/node.h"

namespace ringlet::autograd {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + '"';
}

std::string leaf_box(const std::string& id, const VariableState& leaf) {
  const std::string name = leaf.name.empty() ? "" : leaf.name + " ";
  return "  " + id + " [shape=box, label=" + quoted(str(name, leaf.data.shape())) + "];\n";
}

/// All nodes from `root` on towards the leaves, in the order in which they were recorded.
std::vector<const Node*> nodes_behind(const Node& root) {
  std::vector<const Node*> found{&root};
  std::unordered_set<const Node*> seen{&root};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const Edge& edge : found[i]->edges())
      if (edge.node && seen.insert(edge.node.get()).second) found.push_back(edge.node.get());
  std::ranges::sort(found, {}, &Node::sequence);
  return found;
}

}  // namespace

std::string to_dot(const Variable& variable) {
  RINGLET_CHECK(variable.defined(), "[to_dot] an undefined variable has no graph");
  const VariableState& root = *variable.state();
  std::string out = "digraph {\n";
  if (!root.node) return out + leaf_box("leaf0", root) + "}\n";
  std::unordered_map<const void*, std::string> ids;
  std::size_t ops = 0, leaves = 0;
  for (const Node* node : nodes_behind(*root.node)) {
    RINGLET_CHECK(!node->edges().empty(), "[to_dot] a backward has released the graph at ",
                  node->name(), ": draw it before, or pass retain_graph");
    const std::string id = ids[node] = str("op", ops++);
    out += "  " + id + " [label=" + quoted(node->name()) + "];\n";
    for (const Edge& edge : node->edges()) {
      if (edge.leaf && !ids.contains(edge.leaf.get()))
        out += leaf_box(ids[edge.leaf.get()] = str("leaf", leaves++), *edge.leaf);
      if (edge.leaf) out += "  " + ids[edge.leaf.get()] + " -> " + id + ";\n";
      if (edge.node) out += "  " + ids[edge.node.get()] + " -> " + id + ";\n";
    }
  }
  return out + "}\n";
}

std::ostream& operator<<(std::ostream& out, const Variable& variable) {
  if (!variable.defined()) return out << "variable(undefined)";
  out << variable.tensor();
  if (!variable.requires_grad()) return out;
  return variable.is_leaf() ? out << " requires_grad"
                            : out << " grad_fn=" << variable.state()->node->name();
}

}  // namespace ringlet::autograd
