#include "ringlet/train/parallel/sharded_data_parallel.h"

#include <algorithm>
#include <numeric>

#include "ringlet/autograd/side_branch.h"
#include "ringlet/comm/rows.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/optimizer.h"

namespace ringlet::train {
namespace {

/// Units with whole gradients at a time: one in backward, one in flight. A rank with several
/// logical ranks keeps more if units are not registered in the order of the forward
/// (reduce_in_order).
constexpr std::size_t kGradBuffers = 2;

Strategy strategy_of(int stage) {
  RINGLET_CHECK(stage == 1 || stage == 2, "[zero] stage ", stage, "; expected 1 or 2");
  return stage == 1 ? Strategy::zero1 : Strategy::zero2;
}

}  // namespace

ShardedDataParallel::ShardedDataParallel(nn::Module& module, const comm::Group& group,
                                         Options options)
    : ShardedDataParallel(strategy_of(options.stage), module, group, options.average,
                          options.logical_ranks) {}

ShardedDataParallel::ShardedDataParallel(Strategy strategy, nn::Module& module,
                                         const comm::Group& group, bool average, int logical_ranks,
                                         const nn::UnitPolicy& units, int shard_size)
    : RankStrategy(strategy, module, group, average, logical_ranks, units),
      shards_(group_),
      gradients_(traits(strategy).gradients),
      parameters_(traits(strategy).parameters) {
  if (shard_size > 0 && shard_size != size()) make_blocks(shard_size);
  leaves_ = this->logical_ranks() / replicas_.size();
  std::span<Item> items = items_;
  std::int64_t local = 0;
  for (const nn::Unit& unit : arena_->units()) {
    State& state = states_.emplace_back();
    state.unit = &unit;
    state.sum = {leaves_of_rank(shards_.rank(), shards_.size(), leaves_), leaves_};
    state.pieces = comm::even_pieces(unit.end - unit.begin, shards_.size(), kNormBlock);
    state.items = items.first(unit.parameters.size());
    items = items.subspan(unit.parameters.size());
    local += mine(state).count;
  }
  const DType dtype = items_.front().slot->parameter.dtype();
  const Device device = items_.front().slot->parameter.device();
  const std::size_t nbytes = static_cast<std::size_t>(arena_->numel()) * itemsize(dtype);
  for (State& state : states_)
    for (const Item& item : state.items)
      state.elsewhere.push_back(std::make_shared<Storage>(
          nbytes, device, used_without_call(*state.unit, item.slot->name)));
  summed_ = std::make_shared<Storage>(nbytes, device,
                                      str("[", name_, "] a gradient was looked at once it was ",
                                          "summed: each rank has a piece, for its optimizer"));
  if (gradients_) {
    arena_->drop_grad();
    shard_grads_ = zeros({local}, dtype, device);
  } else {
    arena_->grad();
  }
  std::int64_t at = 0;
  for (State& state : states_) {
    const std::int64_t begin = state.unit->begin + mine(state).offset;
    const std::int64_t count = mine(state).count;
    state.shard =
        parameters_ ? empty({count}, dtype, device) : arena_->data().slice(begin, begin + count);
    state.shard_grad = gradients_ ? shard_grads_.slice(at, at + count)
                                  : arena_->grad().slice(begin, begin + count);
    at += count;
  }
}

void ShardedDataParallel::make_blocks(int shard_size) {
  if (size() % shard_size != 0)
    fail_setting("fsdp_shard_size", ": expected a divisor of ", size(), " ranks, found ",
                 shard_size);
  const int blocks = size() / shard_size, leaves = logical_ranks_ / blocks;
  if (logical_ranks_ % blocks != 0 || (leaves & (leaves - 1)) != 0)
    fail_setting("logical_ranks", ' ', logical_ranks_, ": expected a power of two for each of the ",
                 blocks, " blocks of fsdp_shard_size ", shard_size);
  for (int first = 0; first < size(); first += shard_size) {
    std::vector<int> block(static_cast<std::size_t>(shard_size));
    std::iota(block.begin(), block.end(), first);
    const comm::Group group = group_.subgroup(block);
    if (rank() / shard_size == first / shard_size) shards_ = group;
  }
  for (int place = 0; place < shard_size; ++place) {
    std::vector<int> same;
    for (int block = 0; block < blocks; ++block) same.push_back(block * shard_size + place);
    const comm::Group group = group_.subgroup(same);
    if (rank() % shard_size == place) replicas_ = group;
  }
}

std::string ShardedDataParallel::used_without_call(const nn::Unit& unit,
                                                   const std::string& parameter) {
  const std::string what =
      parameter.empty() ? "its parameters were" : str("its parameter '", parameter, "' was");
  constexpr const char* kWhole = ", or read it whole, by nn::WholeParameters on every rank";
  if (unit.layer)
    return str("[fsdp] '", unit.name, "' is a unit, but ", what, " used without calling it: ",
               "choose a module around it (FullyShardedOptions::units)", kWhole);
  return str("[fsdp] '", unit.name.empty() ? "the outermost module" : unit.name,
             "' was not called, but ", what, " used: read it in the module's forward", kWhole);
}

Tensor ShardedDataParallel::placeholder(const std::shared_ptr<Storage>& bytes,
                                        const nn::PlacedParameter& slot) const {
  const DType dtype = states_.front().shard.dtype();  // a whole parameter may be rounded
  return Tensor(bytes, static_cast<std::size_t>(slot.offset) * itemsize(dtype),
                slot.parameter.shape(), dtype);
}

// The parameter's elements of this rank's shard.
ShardedDataParallel::Bounds ShardedDataParallel::mine_of(const State& state,
                                                         const nn::PlacedParameter& slot) const {
  const std::int64_t begin = state.unit->begin + mine(state).offset;
  const auto clamped = [&](std::int64_t at) {
    return std::clamp(at, begin, begin + mine(state).count);
  };
  return {clamped(slot.offset), clamped(slot.offset + slot.numel())};
}

Tensor ShardedDataParallel::in_shard(const Tensor& shard, const State& state,
                                     const nn::PlacedParameter& slot) const {
  const std::int64_t start = state.unit->begin + mine(state).offset;
  const auto [begin, end] = mine_of(state, slot);
  return shard.slice(begin - start, end - start);
}

// ---- for optimizers and savers ------------------------------------------------------------

std::vector<nn::LocalSlice> ShardedDataParallel::local_slices() {
  check_usable();
  std::vector<nn::LocalSlice> slices;
  for (const State& state : states_) {
    const auto [offset, count] = mine(state);
    if (count == 0) continue;
    const std::int64_t begin = state.unit->begin + offset;
    slices.push_back({begin, begin + count, state.shard, state.shard_grad});
  }
  return slices;
}

void ShardedDataParallel::gather_norm_blocks(Tensor& blocks) {
  comm::all_reduce_filled(shards_, blocks);
}

void ShardedDataParallel::after_step(bool all) {
  std::vector<comm::Work> works;
  for (const State& state : states_) {
    const bool updated =
        std::ranges::any_of(state.items, [](const Item& item) { return item.state->has_grad; });
    if (!updated && !all) continue;
    const Tensor whole = arena_->data().slice(state.unit->begin, state.unit->end);
    works.push_back(shards_.all_gather(whole, state.shard, state.pieces));
  }
  for (const comm::Work& work : works) work.wait();
  arena_->data().storage()->bump_version();
}

std::string ShardedDataParallel::why_no_graphs() const {
  return gradients_ ? "units are allocated in each step" : why_not_captured();
}

Tensor ShardedDataParallel::whole_unit(const nn::Unit& unit) {
  if (!parameters_) return RankStrategy::whole_unit(unit);
  const State& state = state_of(unit);
  Tensor whole = empty({state.numel()}, state.shard.dtype(), state.shard.device());
  shards_.all_gather(whole, state.shard, state.pieces).wait();
  return whole;
}

void ShardedDataParallel::assign(const nn::Parameter& parameter, const Tensor& value) {
  if (!parameters_) return RankStrategy::assign(parameter, value);
  check_shape("assign", parameter.name().c_str(), value, parameter.shape());
  const Item& item = item_of(*parameter.state());
  const State& state = states_[item.unit];
  const auto [begin, end] = mine_of(state, *item.slot);
  if (begin == end) return;
  const std::int64_t offset = item.slot->offset;
  in_shard(state.shard, state, *item.slot)
      .copy_(value.view({-1}).slice(begin - offset, end - offset));
}

// ---- backward -----------------------------------------------------------------------------

void ShardedDataParallel::backward_begins(std::span<autograd::VariableState* const> reached) {
  reducing_ = begin(reached);
  in_flight_.clear();  // of a capture that failed
  for (State& state : states_) {
    state.reducing.clear();
    state.rows = {};
    state.waiting = 0;
    state.launched = false;
    for (Item& item : state.items) {
      if (!item.reached) continue;
      ++state.waiting;
      begin_sum(item);
    }
    if (state.waiting > 0 && !gradients_) stash_sums(state);
  }
  rest_ = states_.size();
}

Tensor ShardedDataParallel::gradients(const State& state) {
  return gradients_ ? state.grad : arena_->grad().slice(state.unit->begin, state.unit->end);
}

void ShardedDataParallel::end_logical_rank(bool counts) {
  check_usable();
  if (!counts) return drop_gradients();
  for (State& state : states_) {
    if (std::ranges::none_of(state.items, &Item::pending)) continue;
    add_missed(state);
    add_to_sum(state.items, gradients(state), state.sum, state.unit->begin);
  }
  ++ended_;
}

// The gradients of earlier logical ranks that did not reach the unit are zeros.
void ShardedDataParallel::add_missed(State& state) {
  while (state.sum.added() < ended_)
    state.sum.add(zeros({state.numel()}, state.shard.dtype(), state.shard.device()));
}

// A reduced gradient is summed in the shard; this rank's next one begins with zero.
void ShardedDataParallel::begin_sum(Item& item) {
  if (std::exchange(item.pending, true)) return;
  item.state->has_grad = item.state->dense = false;
  tables_.forget(*item.state);
  if (gradients_) item.state->grad_buffer = Tensor();
}

// Before the shard's gradients are written.
void ShardedDataParallel::stash_sums(State& state) {
  for (Item& item : state.items)
    if (item.reduced && !item.earlier.defined())
      item.earlier = in_shard(state.shard_grad, state, *item.slot).clone();
}

void ShardedDataParallel::needs_grad_buffer(autograd::VariableState& leaf) {
  if (!gradients_) return;
  State& state = states_[item_of(leaf).unit];
  if (!state.grad.defined()) {
    make_room();
    state.grad = empty({state.numel()}, state.shard.dtype(), state.shard.device());
  }
  for (Item& item : state.items) {
    if (!item.reached || item.state->grad_buffer.defined()) continue;
    const std::int64_t begin = item.slot->offset - state.unit->begin;
    item.state->grad_buffer =
        state.grad.slice(begin, begin + item.slot->numel()).view(item.slot->parameter.shape());
  }
}

void ShardedDataParallel::make_room() {
  while (in_flight_.size() >= kGradBuffers) finish(*in_flight_.front());
}

void ShardedDataParallel::grad_ready(autograd::VariableState& leaf) {
  State& state = states_[item_of(leaf).unit];
  if (--state.waiting > 0) return;
  unit_complete(state);
  if (!reducing_) return;
  if (logical_ranks() == size()) {
    autograd::SideBranch::run_behind([&] { reduce(state); });
  } else {
    reduce_in_order();
  }
}

// Reduces complete units from the last one to the first that is incomplete. Every rank has this
// order of collectives, also if last backwards reach different units. A unit that is registered
// late and completes late holds up the others, with their whole gradients.
void ShardedDataParallel::reduce_in_order() {
  for (; rest_ > 0 && states_[rest_ - 1].waiting == 0; --rest_) {
    State& state = states_[rest_ - 1];
    if (!state.launched && std::ranges::any_of(state.items, &Item::pending)) reduce(state);
  }
}

void ShardedDataParallel::reduce(State& state) {
  state.launched = true;
  add_missed(state);
  stash_sums(state);
  Tensor input = gradients(state);
  // Garbage between gradients becomes zeros.
  for (const Item& item : state.items)
    if (!item.pending || !item.state->has_grad) item.slot->in(input, state.unit->begin).zero_();
  if (exchange_rows(state)) {
    const std::int64_t table = state.table->offset - state.unit->begin;
    reduce_scatter(state, input, 0, table);
    reduce_scatter(state, input, table + state.table->numel(), state.numel());
  } else {
    reduce_scatter(state, input, 0, state.numel());
  }
  in_flight_.push_back(&state);
}

// True if the ranks' rows of the unit's table are in flight, as they are fewer than the table has.
bool ShardedDataParallel::exchange_rows(State& state) {
  for (const Item& item : state.items) {
    const nn::PlacedParameter& slot = *item.slot;
    const bool table = slot.parameter.dim() == 2 && 2 * slot.numel() > state.numel();
    if (!table || !item.pending) continue;
    if (replicas_.size() > 1) return false;      // rows are sent to all ranks at once
    if (logical_ranks() > size()) return false;  // nodes are whole
    state.rows = tables_.exchange(*item.state, group_);
    if (!state.rows) return false;
    state.table = &slot;
    return true;
  }
  return false;
}

// Reduces elements [begin, end) of the unit, each rank's share into its shard.
void ShardedDataParallel::reduce_scatter(State& state, const Tensor& input, std::int64_t begin,
                                         std::int64_t end) {
  if (begin == end) return;
  comm::Pieces pieces;
  for (const auto [offset, count] : state.pieces) {
    const std::int64_t first = std::clamp(offset, begin, end);
    pieces.push_back({first - begin, std::clamp(offset + count, begin, end) - first});
  }
  const auto [offset, count] = pieces[static_cast<std::size_t>(shards_.rank())];
  const std::int64_t start = count == 0 ? 0 : begin + offset - mine(state).offset;
  const Tensor output = state.shard_grad.slice(start, start + count);
  const Tensor gradients = input.slice(begin, end);
  state.reducing.push_back(
      logical_ranks_ == 0
          ? shards_.reduce_scatter(output, gradients, pieces)
          : shards_.reduce_scatter(
                output, comm::NodeSums{state.sum.nodes(gradients, begin), leaves_}, pieces));
}

void ShardedDataParallel::finish_rows(State& state) {
  Tensor out = in_shard(state.shard_grad, state, *state.table);
  out.zero_();
  std::exchange(state.rows, {})(out, mine_of(state, *state.table).first - state.table->offset);
}

void ShardedDataParallel::finish(State& state) {
  for (const comm::Work& work : std::exchange(state.reducing, {})) work.wait();
  if (state.rows) finish_rows(state);
  replicas_.all_reduce(state.shard_grad).wait();
  std::erase(in_flight_, &state);
  take_average(state.shard_grad);  // zero where nothing was summed
  for (Item& item : state.items) {
    if (item.earlier.defined()) {
      Tensor sum = in_shard(state.shard_grad, state, *item.slot);
      axpby(sum, 1, std::exchange(item.earlier, Tensor()), 1);
    }
    if (!std::exchange(item.pending, false)) continue;
    item.state->has_grad = item.reduced = true;
    item.carried = false;
    if (gradients_) item.state->grad_buffer = placeholder(summed_, *item.slot);
  }
  state.grad = Tensor();
  state.sum.clear();
}

// Parameters in the graph that got no gradient, the same ones on all ranks.
void ShardedDataParallel::leave_out_unwritten() {
  for (Item& item : items_) {
    if (!item.pending || item.state->has_grad || item.carried) continue;
    item.pending = false;
    item.state->has_grad = item.reduced;
    if (item.reduced && gradients_) item.state->grad_buffer = placeholder(summed_, *item.slot);
  }
}

void ShardedDataParallel::backward_ends() {
  leave_out_unwritten();
  if (std::exchange(reducing_, false)) {
    for (State& state : states_) state.waiting = 0;
    reduce_in_order();
    while (!in_flight_.empty()) finish(*in_flight_.front());
    ended_ = 0;
  }
  RankStrategy::backward_ends();
}

ShardedDataParallel::~ShardedDataParallel() {
  // The summed ones, which no rank has whole.
  if (gradients_ && !alive_.expired()) arena_->drop_grad();
}

}  // namespace ringlet::train
