#include "ringlet/train/parallel/fully_sharded.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/parallel/unit_layout.h"
#include "ringlet/train/parallel/unit_sharding.h"

namespace ringlet::train {
namespace {

/// Units of layers with whole parameters at a time.
constexpr std::size_t kParameterBuffers = 3;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// Gathers units when their modules are entered and lets them go afterwards.
class Gatherer final : public UnitSharding {
 public:
  Gatherer(nn::Module& module, comm::Group group, const FullyShardedOptions& options)
      : UnitSharding("fsdp", module, std::move(group), {.gradients = true, .parameters = true}),
        options_(options),
        whole_(states_.size()) {
    RINGLET_CHECK(options.param_dtype == DType::f32 || options.param_dtype == DType::bf16,
                  "[fsdp] parameters are gathered as f32 or bf16, not as ", options.param_dtype);
    find_places();
    make_layouts();
    shard_parameters();
  }

  nn::ModuleHooks hooks(nn::Module& module) override {
    // The closures keep the strategy, and the arena it works on, as long as the module lives.
    const auto self = std::static_pointer_cast<Gatherer>(shared_from_this());
    const auto arena = module_.arena();
    nn::ModuleHooks hooks;
    hooks.pre_forward = [self, arena](nn::Module& entered) { self->pre_forward(entered); };
    hooks.post_forward = [self, arena](nn::Module& left) { self->post_forward(left); };
    hooks.forward_failed = [self, arena](nn::Module&) { self->forward_failed(); };
    if (places_.at(&module).layer != kNone)
      hooks.pre_backward = [self, arena](nn::Module& entered) { self->pre_backward(entered); };
    return hooks;
  }

  void backward_begins(std::span<autograd::VariableState* const> reached) override {
    UnitSharding::backward_begins(reached);
    in_backward_ = true;
    for (const std::size_t unit : outside_) launch(unit);
    for (const std::size_t unit : outside_) use(unit);
  }

  void backward_ends() override {
    UnitSharding::backward_ends();
    in_backward_ = false;
    release_all();
  }

  void backward_failed() noexcept override {
    UnitSharding::backward_failed();
    in_backward_ = false;
    try {
      drop_all();
    } catch (...) {  // a few bytes of bookkeeping: the caller hears of what came before
    }
  }

  // What a forward without a backward left whole is out of date now.
  void after_step() override { release_all(); }

  std::int64_t forwards_together(std::int64_t n) override {
    std::int64_t most = 0;
    for (const std::string& each : group_.all_gather_bytes(std::to_string(n)))
      most = std::max<std::int64_t>(most, std::stoll(each));
    return most;
  }

 private:
  /// What a module has to do with units.
  struct Place {
    std::size_t layer = kNone;         // the unit it is
    std::vector<std::size_t> outside;  // units at or below it that are no module of their own
  };
  struct Whole {
    Tensor data;  // (bytes of its layout) u8, while it is whole or on its way
    std::optional<comm::Work> gathering;
    bool in_use = false;  // parameters point into it
    bool frozen = false;  // some parameter gets no gradient, which would say when its use is over
  };

  void make_layouts() {
    UnitLayout::Rounded products, none;
    if (options_.param_dtype == DType::bf16)
      module_.visit([&](const std::string&, nn::Module& below) {
        for (const auto& [name, parameter] : below.named_parameters())
          if (name.find('.') == name.npos && below.only_multiplied(parameter))  // its own
            products.insert(parameter.state().get());
      });
    for (std::size_t unit = 0; unit < states_.size(); ++unit) {
      // What lies outside layers, a loss's head, may well compute in f32.
      const bool layer = std::find(layers_.begin(), layers_.end(), unit) != layers_.end();
      layouts_.emplace_back(*states_[unit].unit, states_[unit].pieces, layer ? products : none);
    }
  }

  void find_places() {
    std::map<std::string, std::size_t> by_name;
    for (std::size_t u = 0; u < states_.size(); ++u) by_name[states_[u].unit->name] = u;
    std::vector<bool> is_layer(states_.size());
    module_.visit([&](const std::string& path, nn::Module& below) {
      Place& place = places_[&below];  // the first path counts, as in named_parameters
      const auto unit = by_name.find(path);
      if (!below.is_unit() || unit == by_name.end() || place.layer != kNone) return;
      if (is_layer[unit->second]) return;
      place.layer = unit->second;
      is_layer[unit->second] = true;
    });
    for (std::size_t u = 0; u < states_.size(); ++u)
      (is_layer[u] ? layers_ : outside_).push_back(u);
    module_.visit([&](const std::string& path, nn::Module& below) {
      Place& place = places_[&below];
      if (!place.outside.empty() || place.layer != kNone) return;
      for (const std::size_t u : outside_) {
        const std::string& name = states_[u].unit->name;
        if (path.empty() || name == path || name.starts_with(path + '.'))
          place.outside.push_back(u);
      }
    });
  }

  void shard_parameters() {
    for (std::size_t u = 0; u < states_.size(); ++u) {
      State& state = states_[u];
      // One unit at a time is whole; parameters that were mapped from a file were not in memory.
      const auto [offset, count] = mine(state);
      state.shard.copy_(share_unit(*state.unit).slice(offset, offset + count));
      for (std::size_t i = state.first_item; i < state.last_item; ++i) {
        items_[i].slot->parameter.set_tensor(placeholder(*items_[i].slot));
        whole_[u].frozen |= !items_[i].state->requires_grad;
      }
    }
    arena_->drop_data();
  }

  // ---- hooks ----

  void pre_forward(nn::Module& module) {
    ++depth_;
    check_usable();
    const Place& place = places_.at(&module);
    for (const std::size_t unit : place.outside) launch(unit);
    for (const std::size_t unit : place.outside) use(unit);
    if (place.layer != kNone) enter_layer(place.layer, in_backward_ ? -1 : 1);
  }

  void post_forward(nn::Module& module) {
    --depth_;
    if (in_backward_) return;  // recomputed: its backward comes next
    reach_.ran(module);
    const bool keep = autograd::grad_enabled();
    const Place& place = places_.at(&module);
    if (place.layer != kNone && (options_.reshard_after_forward || !keep)) release(place.layer);
    if (depth_ > 0) return;
    for (const std::size_t unit : layers_)
      if (!whole_[unit].in_use || !keep) release(unit);  // fetched and not used
    if (!keep)
      for (const std::size_t unit : outside_) release(unit);
  }

  void forward_failed() {
    if (--depth_ == 0 && !in_backward_) drop_all();
  }

  void pre_backward(nn::Module& module) { enter_layer(places_.at(&module).layer, -1); }

  void unit_complete(State& state) override {
    const auto unit = static_cast<std::size_t>(&state - states_.data());
    const bool layer = std::find(layers_.begin(), layers_.end(), unit) != layers_.end();
    if (layer && !whole_[unit].frozen) release(unit);
  }

  void enter_layer(std::size_t unit, int direction) {
    use(unit);
    if (!options_.prefetch) return;
    const auto here = std::find(layers_.begin(), layers_.end(), unit) - layers_.begin();
    const auto next = here + direction;
    if (next < 0 || next >= static_cast<std::ptrdiff_t>(layers_.size())) return;
    const auto whole = std::count_if(layers_.begin(), layers_.end(), [&](std::size_t layer) {
      return whole_[layer].data.defined();
    });
    // With everything kept for backward there is nothing to bound.
    const bool bounded = options_.reshard_after_forward || !autograd::grad_enabled();
    if (!bounded || static_cast<std::size_t>(whole) < kParameterBuffers)
      launch(layers_[static_cast<std::size_t>(next)]);
  }

  // ---- a unit's way: elsewhere -> launch -> use -> release ----

  void launch(std::size_t unit) {
    Whole& whole = whole_[unit];
    if (whole.data.defined()) return;
    const UnitLayout& layout = layouts_[unit];
    const Tensor& shard = states_[unit].shard;
    whole.data = empty({layout.nbytes()}, DType::u8, shard.device());
    const Tensor mine = layout.piece(whole.data, shard, static_cast<std::size_t>(rank()));
    whole.gathering = group_.all_gather(whole.data, mine, layout.pieces());
  }

  void use(std::size_t unit) {
    Whole& whole = whole_[unit];
    if (whole.in_use) return;
    launch(unit);
    std::exchange(whole.gathering, std::nullopt)->wait();
    const State& state = states_[unit];
    for (std::size_t i = state.first_item; i < state.last_item; ++i)
      items_[i].slot->parameter.set_tensor(
          layouts_[unit].parameter(whole.data, i - state.first_item));
    whole.in_use = true;
  }

  void release(std::size_t unit) {
    Whole& whole = whole_[unit];
    if (whole.gathering) std::exchange(whole.gathering, std::nullopt)->wait();
    if (options_.poison && whole.data.defined()) whole.data.fill_(0xFF);  // NaN in every dtype
    drop(unit);
  }

  /// Without waiting: what is on its way comes and goes unseen.
  void drop(std::size_t unit) {
    Whole& whole = whole_[unit];
    whole.gathering.reset();
    const State& state = states_[unit];
    if (std::exchange(whole.in_use, false))
      for (std::size_t i = state.first_item; i < state.last_item; ++i)
        items_[i].slot->parameter.set_tensor(placeholder(*items_[i].slot));
    whole.data = Tensor();
  }

  void drop_all() {
    for (std::size_t unit = 0; unit < states_.size(); ++unit) drop(unit);
  }

  void release_all() {
    for (std::size_t unit = 0; unit < states_.size(); ++unit) release(unit);
  }

  FullyShardedOptions options_;
  std::vector<UnitLayout> layouts_;            // one per unit
  std::vector<Whole> whole_;                   // one per unit
  std::vector<std::size_t> layers_, outside_;  // units that are modules, and the others
  std::map<const nn::Module*, Place> places_;
  int depth_ = 0;  // modules entered and not left
  bool in_backward_ = false;
};

}  // namespace

FullySharded::FullySharded(nn::Module& module, comm::Group group, Options options)
    : strategy_(std::make_shared<Gatherer>(check_memory_limit(Strategy::fsdp, module, group.size()),
                                           group, options)) {
  strategy_->attach();
}

}  // namespace ringlet::train
