#include "ringlet/train/parallel/unit_sharding.h"

#include <algorithm>

#include "ringlet/core/ops/elementwise.h"

namespace ringlet::train {
namespace {

/// Units with whole gradients at a time: one in backward, one in flight.
constexpr std::size_t kGradBuffers = 2;

}  // namespace

UnitSharding::UnitSharding(const char* name, nn::Module& module, comm::Group group,
                           Switches switches)
    : RankStrategy(name, module, std::move(group), switches.average, !switches.parameters,
                   switches.units),
      switches_(std::move(switches)) {
  std::size_t item = 0;
  std::int64_t local = 0;
  for (const nn::Unit& unit : arena_->units()) {
    State& state = states_.emplace_back();
    state.unit = &unit;
    state.pieces = comm::even_pieces(unit.end - unit.begin, group_.size(), kNormBlock);
    state.first_item = item;
    state.last_item = item += unit.parameters.size();
    local += mine(state).count;
  }
  const DType dtype = items_.front().slot->parameter.dtype();
  const Device device = items_.front().slot->parameter.device();
  const std::size_t nbytes = static_cast<std::size_t>(arena_->numel()) * itemsize(dtype);
  for (State& state : states_)
    state.elsewhere = std::make_shared<Storage>(nbytes, device, used_without_call(*state.unit));
  summed_ = std::make_shared<Storage>(nbytes, device,
                                      str("[", name, "] a gradient was looked at once it was ",
                                          "summed: each rank has a piece, for its optimizer"));
  if (switches_.gradients) {
    arena_->drop_grad();
    shard_grads_ = zeros({local}, dtype, device);
  } else {
    arena_->grad();
  }
  std::int64_t at = 0;
  for (State& state : states_) {
    const std::int64_t begin = state.unit->begin + mine(state).offset;
    const std::int64_t count = mine(state).count;
    state.shard = switches_.parameters ? empty({count}, dtype, device)
                                       : arena_->data().slice(begin, begin + count);
    state.shard_grad = switches_.gradients ? shard_grads_.slice(at, at + count)
                                           : arena_->grad().slice(begin, begin + count);
    at += count;
  }
}

std::string UnitSharding::used_without_call(const nn::Unit& unit) {
  if (!unit.layer)
    return "[fsdp] parameters outside every unit were used without calling the module that holds "
           "them";
  return str("[fsdp] '", unit.name,
             "' is a unit, but its parameters were used without calling it: choose a module "
             "around it (FullyShardedOptions::units)");
}

Tensor UnitSharding::placeholder(const std::shared_ptr<Storage>& bytes,
                                 const nn::PlacedParameter& slot) const {
  const DType dtype = states_.front().shard.dtype();  // a whole parameter may be rounded
  return Tensor(bytes, static_cast<std::size_t>(slot.offset) * itemsize(dtype),
                slot.parameter.shape(), dtype);
}

comm::Work UnitSharding::gather(const State& state, Tensor whole, const Tensor& piece) const {
  return group_.all_gather(std::move(whole), piece, state.pieces);
}

// ---- for optimizers and savers ------------------------------------------------------------

std::vector<nn::LocalSlice> UnitSharding::local_slices() {
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

// One rank sums a block and the other ranks have zeros there: adding the bits keeps the sum.
void UnitSharding::gather_norm_blocks(Tensor& blocks) {
  static_assert(sizeof(double) == sizeof(std::int64_t));
  group_.all_reduce(Tensor(blocks.storage(), blocks.storage_offset(), blocks.shape(), DType::i64))
      .wait();
}

void UnitSharding::after_step() {
  if (switches_.parameters) return;
  std::vector<comm::Work> works;
  for (const State& state : states_) {
    const bool updated =
        std::ranges::any_of(items_of(state), [](const Item& item) { return item.state->has_grad; });
    if (!updated) continue;
    works.push_back(
        gather(state, arena_->data().slice(state.unit->begin, state.unit->end), state.shard));
  }
  for (const comm::Work& work : works) work.wait();
  arena_->data().storage()->bump_version();
}

Tensor UnitSharding::whole_unit(const nn::Unit& unit) {
  if (!switches_.parameters) return arena_->data().slice(unit.begin, unit.end);
  const State& state = state_of(unit);
  Tensor whole = empty({state.numel()}, state.shard.dtype(), state.shard.device());
  gather(state, whole, state.shard).wait();
  return whole;
}

void UnitSharding::assign(const nn::Parameter& parameter, const Tensor& value) {
  if (!switches_.parameters) return RankStrategy::assign(parameter, value);
  check_shape("assign", parameter.name().c_str(), value, parameter.shape());
  const Item& item = item_of(*parameter.state());
  const State& state = states_[item.unit];
  const std::int64_t start = state.unit->begin + mine(state).offset;
  const std::int64_t offset = item.slot->offset;
  const std::int64_t begin = std::max(offset, start);
  const std::int64_t end = std::min(offset + item.slot->numel(), start + mine(state).count);
  if (begin >= end) return;
  Tensor part = state.shard.slice(begin - start, end - start);
  part.copy_(value.view({-1}).slice(begin - offset, end - offset));
}

// ---- backward -----------------------------------------------------------------------------

void UnitSharding::backward_begins(std::span<autograd::VariableState* const> reached) {
  reducing_ = begin(reached);
  for (State& state : states_) {
    state.waiting = 0;
    state.launched = false;
    state.holds_sum = false;
    for (std::size_t i = state.first_item; i < state.last_item; ++i) {
      Item& item = items_[i];
      state.holds_sum |= item.reduced;
      if (!item.reached) continue;
      ++state.waiting;
      start_anew(item);
    }
    if (!state.holds_sum) state.earlier = Tensor();
    if (state.waiting > 0 && !switches_.gradients) set_sum_aside(state);
  }
}

// A reduced gradient is summed in the shard; this rank's next one begins with zero.
void UnitSharding::start_anew(Item& item) {
  if (std::exchange(item.pending, true)) return;
  item.state->has_grad = item.state->dense = false;
  tables_.forget(*item.state);
  if (switches_.gradients) item.state->grad_buffer = Tensor();
}

void UnitSharding::set_sum_aside(State& state) {
  if (state.holds_sum && !state.earlier.defined()) state.earlier = state.shard_grad.clone();
}

void UnitSharding::needs_grad_buffer(autograd::VariableState& leaf) {
  if (!switches_.gradients) return;
  State& state = states_[item_of(leaf).unit];
  if (!state.grad.defined()) {
    make_room();
    state.grad = empty({state.numel()}, state.shard.dtype(), state.shard.device());
  }
  for (std::size_t i = state.first_item; i < state.last_item; ++i) {
    Item& item = items_[i];
    if (!item.reached || item.state->grad_buffer.defined()) continue;
    const std::int64_t begin = item.slot->offset - state.unit->begin;
    item.state->grad_buffer =
        state.grad.slice(begin, begin + item.slot->numel()).view(item.slot->parameter.shape());
  }
}

void UnitSharding::make_room() {
  while (in_flight_.size() >= kGradBuffers) finish(*in_flight_.front());
}

void UnitSharding::grad_ready(autograd::VariableState& leaf) {
  State& state = states_[item_of(leaf).unit];
  if (--state.waiting > 0) return;
  unit_complete(state);
  if (reducing_) reduce(state);
}

/// Calls visit(item, begin, end) with each parameter's elements of this rank's shard.
template <class Visit>
void UnitSharding::for_spans(const State& state, const Visit& visit) const {
  const std::int64_t start = state.unit->begin + mine(state).offset;
  for (std::size_t i = state.first_item; i < state.last_item; ++i) {
    const nn::PlacedParameter& slot = *items_[i].slot;
    const std::int64_t begin = std::max(slot.offset, start);
    const std::int64_t end = std::min(slot.offset + slot.numel(), start + mine(state).count);
    if (begin < end) visit(items_[i], begin - start, end - start);
  }
}

void UnitSharding::reduce(State& state) {
  state.launched = true;
  set_sum_aside(state);
  Tensor input =
      switches_.gradients ? state.grad : arena_->grad().slice(state.unit->begin, state.unit->end);
  // Garbage between gradients becomes zeros.
  for (std::size_t i = state.first_item; i < state.last_item; ++i) {
    const nn::PlacedParameter& slot = *items_[i].slot;
    const std::int64_t begin = slot.offset - state.unit->begin;
    if (!items_[i].pending) input.slice(begin, begin + slot.numel()).zero_();
  }
  const DType travels = input.dtype() == DType::f32 ? switches_.reduce_dtype : input.dtype();
  if (travels != input.dtype()) {
    state.rounded = empty({mine(state).count}, travels, input.device());
    state.reducing.push_back(group_.reduce_scatter(state.rounded, input.to(travels), state.pieces));
  } else if (exchange_rows(state)) {
    reduce_scatter(state, input, 0, state.table_begin);
    reduce_scatter(state, input, state.table_end, state.numel());
  } else {
    reduce_scatter(state, input, 0, state.numel());
  }
  in_flight_.push_back(&state);
}

// True if the ranks' rows of the unit's table are in flight, as they are fewer than the table has.
bool UnitSharding::exchange_rows(State& state) {
  for (std::size_t i = state.first_item; i < state.last_item; ++i) {
    const nn::PlacedParameter& slot = *items_[i].slot;
    const bool table = slot.parameter.dim() == 2 && 2 * slot.numel() > state.numel();
    if (!table || !items_[i].pending) continue;
    state.rows = tables_.exchange(*items_[i].state, group_);
    if (!state.rows) return false;
    state.table_begin = slot.offset - state.unit->begin;
    state.table_end = state.table_begin + slot.numel();
    return true;
  }
  return false;
}

// Reduces elements [begin, end) of the unit, each rank's share into its shard.
void UnitSharding::reduce_scatter(State& state, const Tensor& input, std::int64_t begin,
                                  std::int64_t end) {
  if (begin == end) return;
  comm::Pieces pieces;
  for (const auto [offset, count] : state.pieces) {
    const std::int64_t first = std::clamp(offset, begin, end);
    pieces.push_back({first - begin, std::clamp(offset + count, begin, end) - first});
  }
  const auto [offset, count] = pieces[static_cast<std::size_t>(rank())];
  const std::int64_t start = count == 0 ? 0 : begin + offset - mine(state).offset;
  state.reducing.push_back(group_.reduce_scatter(state.shard_grad.slice(start, start + count),
                                                 input.slice(begin, end), pieces));
}

void UnitSharding::finish_rows(State& state) {
  const std::int64_t start = mine(state).offset;
  const std::int64_t begin = std::max(start, state.table_begin);
  const std::int64_t end = std::max(begin, std::min(start + mine(state).count, state.table_end));
  Tensor out = begin == end ? state.shard_grad.slice(0, 0)
                            : state.shard_grad.slice(begin - start, end - start);
  out.zero_();
  state.rows->finish(out, begin - state.table_begin);
  state.rows.reset();
}

void UnitSharding::finish(State& state) {
  for (const comm::Work& work : std::exchange(state.reducing, {})) work.wait();
  if (state.rows) finish_rows(state);
  std::erase(in_flight_, &state);
  if (state.rounded.defined()) {
    state.shard_grad.copy_(state.rounded);
    state.rounded = Tensor();
  }
  take_average(state.shard_grad);  // zero where nothing was summed
  if (state.earlier.defined()) {
    for_spans(state, [&](const Item& item, std::int64_t begin, std::int64_t end) {
      Tensor sum = state.shard_grad.slice(begin, end);
      if (item.reduced) axpby(sum, 1, state.earlier.slice(begin, end), 1);
    });
    state.earlier = Tensor();
  }
  for (std::size_t i = state.first_item; i < state.last_item; ++i) {
    Item& item = items_[i];
    if (!std::exchange(item.pending, false)) continue;
    item.reduced = true;
    if (switches_.gradients) item.state->grad_buffer = placeholder(summed_, *item.slot);
  }
  state.grad = Tensor();
}

// Parameters in the graph that got no gradient, the same ones on all ranks.
void UnitSharding::leave_out_unwritten() {
  for (Item& item : items_) {
    if (!item.pending || item.state->has_grad) continue;
    item.pending = false;
    item.state->has_grad = item.reduced;
    if (item.reduced && switches_.gradients)
      item.state->grad_buffer = placeholder(summed_, *item.slot);
  }
}

void UnitSharding::backward_ends() {
  leave_out_unwritten();
  if (std::exchange(reducing_, false)) {
    for (State& state : states_) {
      const bool pending = std::ranges::any_of(items_of(state), &Item::pending);
      if (pending && !state.launched) reduce(state);
    }
    while (!in_flight_.empty()) finish(*in_flight_.front());
  }
  RankStrategy::backward_ends();
}

}  // namespace ringlet::train
