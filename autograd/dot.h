// A recorded graph as text for Graphviz.
#pragma once

#include <string>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// The graph that backward would run through from `variable`, in Graphviz's language: `dot -Tsvg`
/// draws it. Ops have their names; leaves have their shapes and, if they have one, the name of the
/// parameter. An arrow leads from an input to the op that uses it, once for each use. Inputs that
/// require no gradient are left out. The same program gives the same text. Error if the variable is
/// undefined or if a backward has released the graph.
std::string to_dot(const Variable& variable);

}  // namespace ringlet::autograd
