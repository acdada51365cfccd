#include "ringlet/train/parallel/model/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

std::string describe(const PipelineAction& action, int stage) {
  return str(letter(action.what), action.micro_batch, " of stage ", stage);
}

/// Messages of one direction between two stages, in their order.
struct PipelineLane {
  struct Message {
    int micro_batch;
    double ready;
  };
  std::vector<Message> sent;
  std::vector<double> taken;  // the time of each message that was
};

class PipelineSimulation {
 public:
  PipelineSimulation(const PipelineSchedule& schedule, const PipelineShape& shape,
                     const PipelineCosts& costs, int lane_messages)
      : schedule_(schedule), shape_(shape), costs_(costs), room_(lane_messages) {
    times_.ranks.resize(schedule.size());
    ranks_.resize(schedule.size());
  }

  PipelineTimes run() {
    // Results do not depend on the order in which ranks advance.
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < shape_.ranks; ++rank)
        while (advance(rank)) moved = true;
    }
    check_finished();
    for (const auto& actions : times_.ranks)
      for (const TimedAction& timed : actions)
        times_.makespan = std::max(times_.makespan, timed.end);
    count_kept();
    return std::move(times_);
  }

 private:
  struct Rank {
    std::size_t next = 0;             // action
    double free = 0;                  // the time from which it can compute
    PipelineLane* sending = nullptr;  // holds a message of this rank that may have no room
    std::size_t message = 0;          // its number there
  };

  int stage_of(int rank, int chunk) const { return chunk * shape_.ranks + rank; }
  int rank_of(int stage) const { return stage % shape_.ranks; }
  bool starts(const PipelineAction& action, int stage) const {
    return action.what == Computation::weight_gradient ||
           (action.what == Computation::forward ? stage == 0 : stage == shape_.stages() - 1);
  }

  /// Runs the rank's next action, or lets its message go. False if it must wait, and at its end.
  bool advance(int rank) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    if (state.sending) return finish_sending(state);
    const auto& actions = schedule_[static_cast<std::size_t>(rank)];
    if (state.next == actions.size()) return false;
    const PipelineAction& action = actions[state.next];
    const int stage = stage_of(rank, action.chunk);
    double start = state.free;
    if (!starts(action, stage)) {
      const int from = action.what == Computation::forward ? stage - 1 : stage + 1;
      PipelineLane& lane = lanes_[{from, stage}];
      if (lane.taken.size() == lane.sent.size()) return false;
      const PipelineLane::Message& message = lane.sent[lane.taken.size()];
      RINGLET_CHECK_EQ(message.micro_batch, action.micro_batch, "[pipeline] ",
                       describe(action, stage), " receives micro-batch");
      start = std::max(start, message.ready);
      lane.taken.push_back(start);
    }
    const double end = start + costs_.of(action.what);
    times_.ranks[static_cast<std::size_t>(rank)].push_back({action, start, end});
    ++state.next;
    state.free = end;
    if (const auto to = sends_to(action.what, stage, shape_.stages())) send(state, stage, *to);
    return true;
  }

  void send(Rank& state, int stage, int to) {
    const TimedAction& done = times_.ranks[static_cast<std::size_t>(rank_of(stage))].back();
    PipelineLane& lane = lanes_[{stage, to}];
    lane.sent.push_back({done.action.micro_batch, done.end});
    if (rank_of(to) == rank_of(stage)) return;
    ++times_.messages;
    state.sending = &lane;
    state.message = lane.sent.size() - 1;
  }

  bool finish_sending(Rank& state) {
    const auto room = static_cast<std::size_t>(room_);
    if (state.message >= room) {
      const std::size_t earlier = state.message - room;
      if (state.sending->taken.size() <= earlier) return false;
      state.free = std::max(state.free, state.sending->taken[earlier]);
    }
    state.sending = nullptr;
    return true;
  }

  void check_finished() const {
    std::string waiting;
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const Rank& state = ranks_[static_cast<std::size_t>(rank)];
      const auto& actions = schedule_[static_cast<std::size_t>(rank)];
      const std::size_t at = state.next - (state.sending ? 1 : 0);
      if (at == actions.size()) continue;
      waiting += str(waiting.empty() ? "" : ", ", "rank ", rank, " at ",
                     describe(actions[at], stage_of(rank, actions[at].chunk)),
                     state.sending ? ", sending" : ", receiving");
    }
    RINGLET_CHECK(waiting.empty(), "[pipeline] deadlock: ", waiting);
  }

  void count_kept() {
    for (const auto& actions : times_.ranks) {
      int inputs = 0, weights = 0, most_inputs = 0, most_weights = 0;
      for (const TimedAction& timed : actions) {
        const Computation what = timed.action.what;
        if (what == Computation::forward) ++inputs, ++weights;
        most_inputs = std::max(most_inputs, inputs);
        most_weights = std::max(most_weights, weights);
        if (what == Computation::backward || what == Computation::input_gradient) --inputs;
        if (what == Computation::backward || what == Computation::weight_gradient) --weights;
      }
      times_.peak_activations.push_back(most_inputs);
      times_.peak_weight_inputs.push_back(most_weights);
    }
  }

  const PipelineSchedule& schedule_;
  PipelineShape shape_;
  PipelineCosts costs_;
  int room_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, PipelineLane> lanes_;  // (from, to), stages
  PipelineTimes times_;
};

}  // namespace

double PipelineCosts::of(Computation what) const {
  switch (what) {
    case Computation::forward:
      return forward;
    case Computation::input_gradient:
      return input_gradient;
    case Computation::weight_gradient:
      return weight_gradient;
    case Computation::backward:
      break;
  }
  return input_gradient + this->weight_gradient;
}

double PipelineTimes::bubble() const {
  double busy = 0;
  for (const auto& actions : ranks)
    for (const TimedAction& timed : actions) busy += timed.end - timed.start;
  return 1 - busy / (makespan * static_cast<double>(ranks.size()));
}

PipelineTimes simulate_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape,
                                const PipelineCosts& costs, int lane_messages) {
  RINGLET_CHECK_EQ(std::ssize(schedule), std::ptrdiff_t{shape.ranks}, "[pipeline] ranks");
  return PipelineSimulation(schedule, shape, costs, lane_messages).run();
}

}  // namespace ringlet::train
