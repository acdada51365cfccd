#include "ringlet/comm/group.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <ostream>

#include "ringlet/comm/collectives.h"
#include "ringlet/comm/queue.h"
#include "ringlet/comm/trace.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {

struct Work::State {
  std::shared_ptr<Queue> queue;
  std::shared_ptr<Task> task;
};

void Work::wait() const {
  if (state_) state_->queue->wait(*state_->task);
}

bool Work::done() const { return !state_ || state_->task->done; }

namespace {

// Edges of the pieces that ranks reduce: whole cache lines of f32.
constexpr std::int64_t kEdge = 16;

void check_tensor(Op op, const Tensor& tensor) {
  RINGLET_CHECK(tensor.defined(), "[", name(op), "] of an undefined tensor");
  RINGLET_CHECK(tensor.device().type == DeviceType::cpu, "[", name(op),
                "] takes tensors on a cpu, not on ", tensor.device());
}

void check_reduction(Op op, ReduceOp reduce, DType dtype) {
  RINGLET_CHECK(reduce != ReduceOp::avg || is_floating(dtype), "[", name(op), "] ", dtype,
                " tensors have no average: use sum");
}

void check_pieces(Op op, const Pieces& pieces, const Tensor& whole, const Tensor& part, int rank,
                  int size) {
  RINGLET_CHECK_EQ(static_cast<int>(pieces.size()), size, "[", name(op), "] a piece per rank");
  std::int64_t end = 0;
  for (const Piece& piece : pieces) {
    RINGLET_CHECK(piece.offset >= end && piece.count >= 0, "[", name(op), "] the piece [",
                  piece.offset, ", ", piece.offset + piece.count,
                  ") does not lie behind the one before it");
    end = piece.offset + piece.count;
  }
  RINGLET_CHECK(end <= whole.numel(), "[", name(op), "] pieces end at ", end, " in a tensor of ",
                whole.numel());
  RINGLET_CHECK_EQ(part.numel(), pieces[static_cast<std::size_t>(rank)].count, "[", name(op),
                   "] elements of rank ", rank, "'s piece");
  RINGLET_CHECK_EQ(part.dtype(), whole.dtype(), "[", name(op), "] dtypes");
}

void copy_bytes(std::byte* to, const Tensor& from) {
  if (from.nbytes() > 0 && to != from.bytes()) std::memcpy(to, from.bytes(), from.nbytes());
}

/// The tensors as one, if they lie end to end; undefined otherwise.
Tensor end_to_end(const std::vector<Tensor>& tensors) {
  std::size_t end = tensors[0].storage_offset();
  for (const Tensor& tensor : tensors) {
    if (tensor.storage() != tensors[0].storage() || tensor.storage_offset() != end) return {};
    end += tensor.nbytes();
  }
  const std::size_t nbytes = end - tensors[0].storage_offset();
  const DType dtype = tensors[0].dtype();
  return Tensor(tensors[0].storage(), tensors[0].storage_offset(),
                {static_cast<std::int64_t>(nbytes / itemsize(dtype))}, dtype);
}

}  // namespace

struct Group::State {
  Membership member;
  GroupOptions options;
  TransportKind asked_for;
  std::unique_ptr<Transport> transport;
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
  std::mutex calls;  // numbers calls in the order in which they are queued
  std::uint64_t sequence = 0;
  std::uint64_t bytes_sent = 0;
  int subgroups = 0;

  ~State() { queue->drain(); }

  Algorithm algorithm() const {
    return options.algorithm == Algorithm::automatic ? Algorithm::direct : options.algorithm;
  }
  Schedule schedule(Op op, int root) const;
  Collective plan(Op op, Tensor buffer, Pieces pieces, ReduceOp reduce = ReduceOp::sum,
                  int root = 0) const;
  void run(Collective& collective);
  void run_native(Collective& collective);

  /// What else is done on the thread that runs the collective.
  struct Around {
    std::function<void()> before;
    std::function<void()> after;
  };
  std::shared_ptr<Task> task(Collective collective, Around around);
  Work start(Collective collective, Around around = {});
  void run_now(Collective collective);
};

Schedule Group::State::schedule(Op op, int root) const {
  if (algorithm() == Algorithm::native) return {};
  const int rank = member.rank, size = member.size;
  const bool ring = algorithm() == Algorithm::ring;
  switch (op) {
    case Op::all_reduce:
      return ring ? ring_all_reduce(rank, size) : direct_all_reduce(rank, size);
    case Op::reduce_scatter:
      return ring ? ring_reduce_scatter(rank, size) : direct_reduce_scatter(rank, size);
    case Op::all_gather:
      return ring ? ring_all_gather(rank, size) : direct_all_gather(rank, size);
    case Op::broadcast:
      return ring ? ring_broadcast(rank, size, root) : direct_broadcast(rank, size, root);
    case Op::barrier:
      break;
  }
  return barrier_schedule(rank, size);
}

Collective Group::State::plan(Op op, Tensor buffer, Pieces pieces, ReduceOp reduce,
                              int root) const {
  std::int64_t longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.count);
  longest *= static_cast<std::int64_t>(itemsize(buffer.dtype()));
  const std::int64_t segments =
      std::max<std::int64_t>(1, (longest + options.segment_bytes - 1) / options.segment_bytes);
  buffer.mutable_bytes();  // moves the version on now, not when the bytes change
  return {.call = {.count = buffer.numel(),
                   .layout = hash_layout(pieces, segments),
                   .root = root,
                   .op = op,
                   .reduce = reduce,
                   .dtype = buffer.dtype(),
                   .algorithm = algorithm()},
          .schedule = schedule(op, root),
          .pieces = std::move(pieces),
          .segments = segments,
          .buffer = buffer,
          .own = {}};
}

void Group::State::run(Collective& collective) {
  if (options.trace) *options.trace << trace(collective, member.rank, member.size) << std::flush;
  if (algorithm() == Algorithm::native) return run_native(collective);
  comm::run(collective, *transport, member.rank, member.size);
}

void Group::State::run_native(Collective& collective) {
  Engine& engine = *transport->engine();
  switch (collective.call.op) {
    case Op::all_reduce:
      return engine.all_reduce(collective.call, collective.buffer);
    case Op::all_gather:
      return engine.all_gather(collective.call, collective.buffer, collective.pieces);
    case Op::broadcast:
      return engine.broadcast(collective.call, collective.buffer);
    case Op::barrier:
      return engine.barrier(collective.call);
    case Op::reduce_scatter:
      break;
  }
  fail("[", name(collective.call.op), "] ", name(options.transport),
       " has none of its own: choose ring or direct");
}

std::shared_ptr<Task> Group::State::task(Collective collective, Around around) {
  collective.call.sequence = ++sequence;
  bytes_sent += static_cast<std::uint64_t>(elements_sent(collective.schedule, collective.pieces)) *
                itemsize(collective.call.dtype);
  auto task = std::make_shared<Task>();
  task->run = [this, collective = std::move(collective), around = std::move(around)]() mutable {
    try {
      if (around.before) around.before();
      run(collective);
      if (around.after) around.after();
    } catch (const std::exception& error) {
      if (!member.alarm->raised())
        member.alarm->raise(concat("rank ", member.rank, ": ", error.what()));
      transport->abandon();
      throw;
    }
  };
  return task;
}

Work Group::State::start(Collective collective, Around around) {
  const std::lock_guard lock(calls);
  Work work;
  work.state_ = std::make_shared<Work::State>(
      Work::State{queue, task(std::move(collective), std::move(around))});
  queue->push(work.state_->task);
  return work;
}

void Group::State::run_now(Collective collective) {
  std::shared_ptr<Task> now;
  {
    const std::lock_guard lock(calls);
    now = task(std::move(collective), {});
    queue->push_quietly(now);
  }
  queue->wait(*now);
}

// ---- the group ----------------------------------------------------------------------------

Group::Group(std::shared_ptr<Store> store, std::shared_ptr<Alarm> alarm, int rank, int size,
             GroupOptions options, const std::string& id)
    : state_(std::make_shared<State>()) {
  RINGLET_CHECK(0 <= rank && rank < size, "[group] rank ", rank, " of ", size);
  RINGLET_CHECK(options.segment_bytes > 0, "[group] segments of ", options.segment_bytes, " bytes");
  state_->member = {std::move(store), std::move(alarm), rank, size, options.timeout, id};
  state_->options = options;
  state_->asked_for = options.transport;
  if (size == 1) return;
  state_->transport = make_transport(state_->options.transport, state_->member);
  if (options.algorithm == Algorithm::native && !state_->transport->engine())
    fail_input("[group] ", name(state_->options.transport),
               " has no native collectives: choose ring or direct");
}

int Group::rank() const { return state_ ? state_->member.rank : 0; }
int Group::size() const { return state_ ? state_->member.size : 1; }

const GroupOptions& Group::options() const {
  static const GroupOptions none;
  return state_ ? state_->options : none;
}

const std::shared_ptr<Alarm>& Group::alarm() const {
  static const std::shared_ptr<Alarm> none = make_local_alarm();
  return state_ ? state_->member.alarm : none;
}

GroupStats Group::stats() const {
  if (!state_) return {};
  const std::lock_guard lock(state_->calls);
  return {state_->sequence, state_->bytes_sent, state_->queue->seconds_running(),
          state_->queue->seconds_waited()};
}

// ---- collectives --------------------------------------------------------------------------

Work Group::all_reduce(Tensor tensor, ReduceOp op) const {
  check_tensor(Op::all_reduce, tensor);
  check_reduction(Op::all_reduce, op, tensor.dtype());
  if (size() == 1) return {};
  return state_->start(
      state_->plan(Op::all_reduce, tensor, even_pieces(tensor.numel(), size(), kEdge), op));
}

Work Group::all_reduce(std::vector<Tensor> tensors, ReduceOp op) const {
  RINGLET_CHECK(!tensors.empty(), "[all_reduce] of no tensors");
  std::int64_t numel = 0;
  for (Tensor& tensor : tensors) {
    check_tensor(Op::all_reduce, tensor);
    RINGLET_CHECK_EQ(tensor.dtype(), tensors[0].dtype(), "[all_reduce] dtypes of the tensors");
    tensor.mutable_bytes();
    numel += tensor.numel();
  }
  if (const Tensor whole = end_to_end(tensors)) return all_reduce(whole, op);
  check_reduction(Op::all_reduce, op, tensors[0].dtype());
  if (size() == 1) return {};

  Tensor flat = empty({numel}, tensors[0].dtype());
  const auto pack = [flat, tensors]() mutable {
    std::byte* to = flat.mutable_bytes();
    for (const Tensor& tensor : tensors) copy_bytes(to, tensor), to += tensor.nbytes();
  };
  const auto unpack = [flat, tensors] {
    const std::byte* from = flat.bytes();
    for (const Tensor& tensor : tensors) {
      if (tensor.nbytes()) std::memcpy(announced_bytes(tensor), from, tensor.nbytes());
      from += tensor.nbytes();
    }
  };
  return state_->start(state_->plan(Op::all_reduce, flat, even_pieces(numel, size(), kEdge), op),
                       {pack, unpack});
}

Work Group::reduce_scatter(Tensor output, Tensor input, const Pieces& pieces, ReduceOp op) const {
  check_tensor(Op::reduce_scatter, output);
  check_tensor(Op::reduce_scatter, input);
  check_reduction(Op::reduce_scatter, op, input.dtype());
  check_pieces(Op::reduce_scatter, pieces, input, output, rank(), size());
  if (size() == 1) {
    const Tensor flat = input.view({-1});
    copy_bytes(output.mutable_bytes(),
               flat.slice(pieces[0].offset, pieces[0].offset + pieces[0].count));
    return {};
  }
  Collective collective = state_->plan(Op::reduce_scatter, input, pieces, op);
  output.mutable_bytes();
  collective.own = output;
  return state_->start(std::move(collective));
}

Work Group::all_gather(Tensor output, Tensor input, const Pieces& pieces) const {
  check_tensor(Op::all_gather, output);
  check_tensor(Op::all_gather, input);
  check_pieces(Op::all_gather, pieces, output, input, rank(), size());
  const auto offset = static_cast<std::size_t>(pieces[static_cast<std::size_t>(rank())].offset);
  const auto place_mine = [output, input, offset] {
    copy_bytes(announced_bytes(output) + offset * itemsize(output.dtype()), input);
  };
  if (size() > 1)
    return state_->start(state_->plan(Op::all_gather, output, pieces), {place_mine, {}});
  output.mutable_bytes();
  place_mine();
  return {};
}

Work Group::broadcast(Tensor tensor, int root) const {
  check_tensor(Op::broadcast, tensor);
  RINGLET_CHECK(0 <= root && root < size(), "[broadcast] from rank ", root, " of ", size());
  if (size() == 1) return {};
  const int parts = state_->algorithm() == Algorithm::ring ? size() : 1;
  return state_->start(state_->plan(
      Op::broadcast, tensor, even_pieces(tensor.numel(), parts, kEdge), ReduceOp::sum, root));
}

void Group::barrier() const {
  if (size() > 1) state_->run_now(state_->plan(Op::barrier, empty({0}, DType::u8), Pieces(1)));
}

std::vector<std::string> Group::all_gather_bytes(const std::string& bytes) const {
  if (size() == 1) return {bytes};
  const auto ranks = static_cast<std::size_t>(size()), mine = static_cast<std::size_t>(rank());
  Tensor lengths = empty({size()}, DType::i64);
  lengths.mutable_data<std::int64_t>()[mine] = static_cast<std::int64_t>(bytes.size());
  state_->run_now(state_->plan(Op::all_gather, lengths, even_pieces(size(), size())));

  Pieces pieces(ranks);
  std::int64_t end = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    pieces[rank] = {end, lengths.data<std::int64_t>()[rank]};
    end += pieces[rank].count;
  }
  Tensor all = empty({end}, DType::u8);
  if (!bytes.empty())
    std::memcpy(all.mutable_bytes() + pieces[mine].offset, bytes.data(), bytes.size());
  state_->run_now(state_->plan(Op::all_gather, all, pieces));

  std::vector<std::string> out;
  const auto* text = reinterpret_cast<const char*>(all.bytes());
  for (const Piece& piece : pieces)
    out.emplace_back(text + piece.offset, static_cast<std::size_t>(piece.count));
  return out;
}

Group Group::subgroup(const std::vector<int>& ranks) const {
  GroupOptions options = this->options();
  if (state_) options.transport = state_->asked_for;
  return subgroup(ranks, options);
}

Group Group::subgroup(const std::vector<int>& ranks, GroupOptions options) const {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RINGLET_CHECK(0 <= ranks[i] && ranks[i] < size() && (i == 0 || ranks[i - 1] < ranks[i]),
                  "[subgroup] ranks must be ascending and below ", size(), "; got ", ranks[i]);
    text += concat(i == 0 ? "" : ",", ranks[i]);
  }
  const std::vector<std::string> theirs = all_gather_bytes(text);
  for (std::size_t rank = 0; rank < theirs.size(); ++rank)
    RINGLET_CHECK(theirs[rank] == text, "[subgroup] rank ", rank, " named ranks ", theirs[rank],
                  ", rank ", this->rank(), " ", text);
  const int index = state_ ? ++state_->subgroups : 0;
  const auto found = std::find(ranks.begin(), ranks.end(), rank());
  if (!state_ || found == ranks.end() || ranks.size() == 1) return {};
  return Group(state_->member.store, state_->member.alarm, static_cast<int>(found - ranks.begin()),
               static_cast<int>(ranks.size()), options,
               concat(state_->member.id, "/", index, ":", text));
}

}  // namespace ringlet::comm
