#include "ringlet/train/parallel/model/tensor_parallel.h"

#include <map>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/nn/lora.h"
#include "ringlet/nn/name_pattern.h"
#include "ringlet/nn/replace.h"
#include "ringlet/nn/slices.h"
#include "ringlet/train/parallel/same_module.h"

namespace ringlet::train {
namespace {

/// A layer that the plan names.
struct Chosen {
  std::string name;
  nn::Sliceable* layer;
  nn::SliceKind kind;
};

[[noreturn]] void fail_no(const char* what, const std::string& pattern,
                          const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest(pattern, names);
  fail_input("[tensor] ", what, ": expected the name of a layer, found ", quote(pattern),
             near.empty() ? "" : "; near: ", near.empty() ? "" : near.front());
}

void choose(std::vector<Chosen>& chosen, nn::Module& module, nn::SliceKind kind, const char* what,
            const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const std::size_t before = chosen.size();
    std::vector<std::string> names;
    module.visit([&](const std::string& path, nn::Module& below) {
      auto* const layer = dynamic_cast<nn::Sliceable*>(&below);
      if (!layer || layer->pieces(kind) == 0) return;
      names.push_back(path);
      if (nn::names_layer(pattern, path))
        chosen.push_back({path.empty() ? below.kind() : path, layer, kind});
    });
    if (chosen.size() == before) fail_no(what, pattern, names);
  }
}

/// The adapters would stay whole beside the slices of the layer that they adapt.
void check_no_adapters(nn::Module& module, const std::vector<Chosen>& chosen) {
  module.visit([&](const std::string& path, nn::Module& below) {
    if (!dynamic_cast<const nn::Lora*>(&below)) return;
    for (const Chosen& one : chosen)
      if (one.name == path || path.starts_with(one.name + '.'))
        fail_input("[tensor] ", path, ": expected no LoRA in a layer that is cut");
  });
}

/// All encoders.
void choose_encoders(std::vector<Chosen>& chosen, nn::Module& module) {
  const std::size_t before = chosen.size();
  module.visit([&](const std::string& path, nn::Module& below) {
    auto* const encoder = dynamic_cast<nn::Sliceable*>(&below);
    if (encoder && encoder->pieces(nn::SliceKind::tokens) != 0)
      chosen.push_back({path.empty() ? below.kind() : path, encoder, nn::SliceKind::tokens});
  });
  if (chosen.size() == before) fail_input("[tensor] sequence: expected an encoder, found none");
}

void check_divides(const Chosen& one, int slices) {
  const std::int64_t pieces = one.layer->pieces(one.kind);
  if (pieces < 0)
    fail_input("[tensor] ", one.name, ": expected no replaced part of a layer that is cut");
  if (one.kind != nn::SliceKind::heads && one.kind != nn::SliceKind::tokens) {
    if (pieces < slices)
      fail_input("[tensor] ", one.name, ": ", pieces, " rows or columns for ", slices, " ranks");
    return;
  }
  if (pieces % slices == 0) return;
  std::string divisors = "1";
  for (std::int64_t n = 2; n <= pieces; ++n)
    if (pieces % n == 0) divisors += str(", ", n);
  fail_input("[tensor] ", one.name, " has ", pieces, " heads: expected one of ", divisors,
             " ranks, found ", slices);
}

using Dims = std::map<const autograd::VariableState*, int>;  // that parameters are cut along

void cut_by_head(Dims& dims, const nn::Module& module, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    std::vector<std::string> names;
    const std::size_t before = dims.size();
    for (const auto& [name, parameter] : module.named_parameters()) {
      names.push_back(name);
      if (nn::names_layer(pattern, name)) dims[parameter.state().get()] = parameter.dim() - 1;
    }
    if (dims.size() == before) fail_no("by_head", pattern, names);
  }
}

void check_whole(const nn::Module& module) {
  for (const auto& [name, parameter] : module.named_parameters()) {
    const autograd::VariableState& state = *parameter.state();
    RINGLET_CHECK(!state.slice, "[tensor] ", name, " is a slice already");
    RINGLET_CHECK(state.observer.expired() && state.data.nbytes() == state.data.storage()->nbytes(),
                  "[tensor] layers are cut before an optimizer or a strategy is made, not after");
  }
}

/// Gives every rank its part of rank 0's parameters, one of which at a time is whole.
void distribute(const nn::Module& module, const comm::Group& group, const Dims& dims) {
  const auto of_first = [&](const Tensor& value) {
    const Tensor shared = group.rank() == 0 ? value.clone() : empty_like(value);
    group.broadcast(shared, 0).wait();
    return shared;
  };
  for (const auto& [name, buffer] : module.named_buffers()) update_buffer(buffer, of_first(buffer));
  for (const nn::Parameter& parameter : module.parameters()) {
    autograd::VariableState& state = *parameter.state();
    state.data = of_first(state.data);
    state.grad_buffer = Tensor();
    parameter.zero_grad();
    const auto dim = dims.find(&state);
    if (dim == dims.end()) continue;
    state.slice = std::make_shared<const nn::LeafSlice>(
        nn::LeafSlice{group, state.data.shape(), dim->second});
    state.data = state.slice->of(state.data);
  }
}

}  // namespace

TensorPlan encoder_tensor_plan(const models::EncoderConfig& config, bool vocabulary) {
  const bool distilbert = config.architecture == models::Architecture::distilbert;
  TensorPlan plan{.columns = {distilbert ? "layer.*.ffn.lin1" : "layer.*.intermediate.dense"},
                  .rows = {distilbert ? "layer.*.ffn.lin2" : "layer.*.output.dense"},
                  .heads = {"layer.*"}};
  if (vocabulary) plan.vocabulary = {"embeddings"};
  if (config.architecture == models::Architecture::mpnet)
    plan.by_head = {"relative_attention_bias.weight"};
  return plan;
}

TensorParallel::TensorParallel(nn::Module& module, comm::Group group, const TensorPlan& plan,
                               Options options) {
  if (options.slices < 1 || (options.slices > 1 && group.size() > 1))
    fail_input("[tensor] slices: expected 1 on each of ", group.size(), " ranks, found ",
               options.slices);
  std::vector<Chosen> chosen;
  choose(chosen, module, nn::SliceKind::columns, "columns", plan.columns);
  choose(chosen, module, nn::SliceKind::rows, "rows", plan.rows);
  choose(chosen, module, nn::SliceKind::heads, "heads", plan.heads);
  choose(chosen, module, nn::SliceKind::vocabulary, "vocabulary", plan.vocabulary);
  // After the plan's: an encoder's slices replace those of its layers.
  if (options.sequence) choose_encoders(chosen, module);
  check_no_adapters(module, chosen);
  for (const Chosen& one : chosen) check_divides(one, group.size() * options.slices);
  Dims dims;
  cut_by_head(dims, module, plan.by_head);
  check_whole(module);
  if (group.size() * options.slices == 1) return;
  check_same_module("tensor", module, group);

  const auto slices = std::make_shared<const nn::LayerSlices>(group, options.slices);
  const auto tokens = std::make_shared<const nn::LayerSlices>(group, options.slices, true);
  for (const Chosen& one : chosen)
    one.layer->slice(
        one.kind, one.kind == nn::SliceKind::tokens ? tokens : slices,
        [&](const nn::Parameter& parameter, int dim) { dims[parameter.state().get()] = dim; });
  if (group.size() > 1) distribute(module, group, dims);
}

}  // namespace ringlet::train
