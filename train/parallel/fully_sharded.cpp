#include "ringlet/train/parallel/fully_sharded.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/train/parallel/reach.h"
#include "ringlet/train/parallel/sharded_data_parallel.h"
#include "ringlet/train/parallel/unit_layout.h"

namespace ringlet::train {
namespace {

/// Units of layers with whole parameters at a time.
constexpr std::size_t kParameterBuffers = 3;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// The parameters that no module below has. Architectures may use names with dots.
std::vector<nn::Parameter> own_parameters(nn::Module& module) {
  std::vector<nn::Parameter> own = module.parameters();
  module.visit([&](const std::string&, nn::Module& below) {
    if (&below == &module) return;
    for (const nn::Parameter& other : below.parameters()) std::erase(own, other);
  });
  return own;
}

/// Gathers units when their modules are entered and releases them afterwards.
class Gatherer final : public ShardedDataParallel, public std::enable_shared_from_this<Gatherer> {
 public:
  Gatherer(nn::Module& module, const comm::Group& group, const FullyShardedOptions& options)
      : ShardedDataParallel(Strategy::fsdp, module, group, options.average, options.logical_ranks,
                            options.units, options.shard_size),
        options_(options),
        whole_(states_.size()) {
    RINGLET_CHECK(options.param_dtype == DType::f32 || options.param_dtype == DType::bf16,
                  "[fsdp] parameters are gathered as f32 or bf16, not as ", options.param_dtype);
    find_places();
    make_layouts();
    shard_parameters();
  }
  void attach() { ShardedDataParallel::attach(shared_from_this()); }

  nn::ModuleHooks hooks(nn::Module& module) override {
    // The closures keep the strategy, and the arena it works on, as long as the module lives.
    const auto calls = [self = shared_from_this(),
                        arena = module_.arena()](void (Gatherer::*hook)(nn::Module&)) {
      return [self, arena, hook](nn::Module& at) { (*self.*hook)(at); };
    };
    nn::ModuleHooks hooks{calls(&Gatherer::pre_forward),
                          calls(&Gatherer::post_forward),
                          {},
                          calls(&Gatherer::forward_failed)};
    if (places_.at(&module).layer != kNone) hooks.pre_backward = calls(&Gatherer::pre_backward);
    return hooks;
  }

  // Gathered anew, parameters have no version that tells nodes of a write.
  void backward_begins(std::span<autograd::VariableState* const> reached) override {
    RINGLET_CHECK(!written_, "[fsdp] parameters were written to after forward, and backward ",
                  "needs them");
    ShardedDataParallel::backward_begins(reached);
    in_backward_ = true;
    use(outside_);
  }

  void backward_ends() override {
    ShardedDataParallel::backward_ends();
    in_backward_ = false;
    release_all();
  }

  void backward_failed() noexcept override {
    ShardedDataParallel::backward_failed();
    in_backward_ = false;
    try {
      drop_all();
    } catch (...) {  // a few bytes of bookkeeping: the caller hears of what came before
    }
  }

  // Shards are written from here on, and a gather that was let go may not have read this one yet.
  std::vector<nn::LocalSlice> local_slices() override {
    wait_for_dropped();
    return ShardedDataParallel::local_slices();
  }
  void assign(const nn::Parameter& parameter, const Tensor& value) override {
    wait_for_dropped();
    written_ = true;
    ShardedDataParallel::assign(parameter, value);
  }

  // Units that a forward without a backward left whole are out of date now.
  void after_step(bool /*all*/) override {
    written_ = true;
    release_all();
  }

  std::int64_t forwards_together(std::int64_t n) const override {
    return std::ranges::max(comm::all_gather_count(group_, n));
  }

 private:
  /// The units at and below a module.
  struct Place {
    std::size_t layer = kNone;         // the unit it is
    std::vector<std::size_t> outside;  // units at or below it that are no module of their own
  };
  struct Whole {
    Tensor data;  // (bytes of its layout) u8, while it is whole or on its way
    std::optional<comm::Work> gathering;
    bool in_use = false;       // parameters point into it
    bool in_backward = false;  // backward has entered it since it was gathered
  };

  void make_layouts() {
    UnitLayout::Rounded products, none;
    if (options_.param_dtype == DType::bf16)
      module_.visit([&](const std::string&, nn::Module& computing) {
        if (computing.compute_dtype() != DType::bf16) return;
        computing.visit([&](const std::string&, nn::Module& below) {
          for (const nn::Parameter& parameter : own_parameters(below))
            if (below.only_multiplied(parameter)) products.insert(parameter.state().get());
        });
      });
    for (std::size_t unit = 0; unit < states_.size(); ++unit) {
      // Parameters outside layers, e.g. a loss's head, may compute in f32.
      const bool layer = states_[unit].unit->layer != nullptr;
      layouts_.emplace_back(*states_[unit].unit, states_[unit].pieces, layer ? products : none);
    }
  }

  void find_places() {
    for (std::size_t u = 0; u < states_.size(); ++u) {
      const nn::Module* layer = states_[u].unit->layer;
      (layer ? layers_ : outside_).push_back(u);
      if (layer) places_[layer].layer = u;
    }
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
      point_elsewhere(state);
    }
    arena_->drop_data();
  }

  void point_elsewhere(const State& state) {
    for (std::size_t i = 0; i < state.items.size(); ++i) {
      const nn::PlacedParameter& slot = *state.items[i].slot;
      slot.parameter.set_tensor(placeholder(state.elsewhere[i], slot));
    }
  }

  // Rank 0's values of a unit, (end - begin), on all ranks.
  Tensor share_unit(const nn::Unit& unit) const {
    const nn::Parameter& first = unit.parameters.front().parameter;
    Tensor values = empty({unit.end - unit.begin}, first.dtype(), first.device());
    if (rank() == 0)
      for (const nn::PlacedParameter& slot : unit.parameters)
        slot.in(values, unit.begin).copy_(slot.parameter.tensor());
    group_.broadcast(values, 0).wait();
    return values;
  }

  // ---- hooks ----

  void pre_forward(nn::Module& module) {
    if (autograd::grad_enabled() && !in_backward_) written_ = false;
    entered_.push_back(&module);
    check_usable();
    const Place& place = places_.at(&module);
    use(place.outside);
    if (place.layer != kNone) enter_layer(place.layer, in_backward_ ? -1 : 1);
  }

  void post_forward(nn::Module& module) {
    left(module);
    if (in_backward_) return;  // recomputed: its backward comes next
    reach_->ran(module);
    const bool keep = autograd::grad_enabled();
    const Place& place = places_.at(&module);
    if (place.layer != kNone && (options_.reshard_after_forward || !keep)) release(place.layer);
    if (!entered_.empty()) return;
    for (const std::size_t unit : layers_)
      if (!whole_[unit].in_use || !keep) release(unit);  // fetched and not used
    if (!keep)
      for (const std::size_t unit : outside_) release(unit);
  }

  void forward_failed(nn::Module& module) {
    left(module);
    if (entered_.empty() && !in_backward_) drop_all();
  }

  // A module that failed after post_forward has been left already.
  void left(nn::Module& module) {
    const auto found = std::find(entered_.rbegin(), entered_.rend(), &module);
    if (found != entered_.rend()) entered_.erase(found.base() - 1, entered_.end());
  }

  void pre_backward(nn::Module& module) {
    const std::size_t unit = places_.at(&module).layer;
    release_frozen(unit);
    enter_layer(unit, -1);
    whole_[unit].in_backward = true;
  }

  // A frozen parameter gets no gradient, which would mark its last use. Nodes run in the reverse
  // order of the forward: those of units entered before this one have run.
  void release_frozen(std::size_t entered) {
    for (const std::size_t unit : layers_) {
      const std::string& name = states_[unit].unit->name;
      const bool around = name.empty() || states_[entered].unit->name.starts_with(name + '.');
      if (whole_[unit].in_backward && unit != entered && !around && states_[unit].waiting == 0)
        release(unit);
    }
  }

  void unit_complete(State& state) override {
    const auto unit = static_cast<std::size_t>(&state - states_.data());
    if (!state.unit->layer) return;
    RINGLET_CHECK(whole_[unit].in_use, used_without_call(*state.unit));
    if (std::ranges::all_of(state.items, &Item::reached)) release(unit);
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
    const Tensor mine = layout.piece(whole.data, shard, static_cast<std::size_t>(shards_.rank()));
    whole.gathering = shards_.all_gather(whole.data, mine, layout.pieces());
  }

  void use(std::size_t unit) {
    Whole& whole = whole_[unit];
    if (whole.in_use) return;
    launch(unit);
    std::exchange(whole.gathering, std::nullopt)->wait();
    std::size_t i = 0;
    for (const Item& item : states_[unit].items)
      item.slot->parameter.set_tensor(layouts_[unit].parameter(whole.data, i++));
    whole.in_use = true;
  }

  void use(const std::vector<std::size_t>& units) {
    for (const std::size_t unit : units) launch(unit);
    for (const std::size_t unit : units) use(unit);
  }

  void release(std::size_t unit) {
    Whole& whole = whole_[unit];
    if (whole.gathering) std::exchange(whole.gathering, std::nullopt)->wait();
    drop(unit);
  }

  /// Without waiting: what is on its way comes and goes unseen, but reads shards meanwhile.
  void drop(std::size_t unit) {
    Whole& whole = whole_[unit];
    if (whole.gathering) dropped_.push_back(*std::exchange(whole.gathering, std::nullopt));
    if (std::exchange(whole.in_use, false)) point_elsewhere(states_[unit]);
    whole.data = Tensor();
    whole.in_backward = false;
  }

  void drop_all() {
    std::erase_if(dropped_, [](const comm::Work& work) {
      if (!work.done()) return false;
      try {
        work.wait();  // does not: what the device is given next is behind it
      } catch (const Error&) {
        // The group has failed; its next user gets the error.
      }
      return true;
    });
    for (std::size_t unit = 0; unit < states_.size(); ++unit) drop(unit);
  }

  void wait_for_dropped() {
    for (const comm::Work& work : std::exchange(dropped_, {})) work.wait();
  }

  void release_all() {
    for (std::size_t unit = 0; unit < states_.size(); ++unit) release(unit);
  }

  FullyShardedOptions options_;
  std::vector<UnitLayout> layouts_;            // one per unit
  std::vector<Whole> whole_;                   // one per unit
  std::vector<std::size_t> layers_, outside_;  // units that are modules, and the others
  std::map<const nn::Module*, Place> places_;
  std::vector<comm::Work> dropped_;         // gathers that are not used
  std::vector<const nn::Module*> entered_;  // and not left, the outermost first
  bool in_backward_ = false;
  bool written_ = false;  // parameters, since the latest forward with gradients
};

}  // namespace

FullySharded::FullySharded(nn::Module& module, const comm::Group& group, Options options)
    : module_(module) {
  std::make_shared<Gatherer>(module, group, options)->attach();
}

}  // namespace ringlet::train
