#include "ringlet/train/checkpoint/checkpoint_state.h"

#include <limits>
#include <utility>

namespace ringlet::train::checkpoint {
namespace {

using LossSum = TrainerState::LossSum;

Json to_json(const LossSum& loss) { return {{"sum", loss.sum}, {"steps", loss.steps}}; }

Json to_json(const std::vector<LossSum>& losses) {
  Json all = Json::array();
  for (const LossSum& loss : losses) all.push_back(to_json(loss));
  return all;
}

Json to_json(const std::vector<Position>& positions) {
  Json all = Json::array();
  for (const Position& at : positions) all.push_back({{"epoch", at.epoch}, {"step", at.step}});
  return all;
}

/// Values of one JSON object, checked.
class Reader {
 public:
  Reader(const Json& json, const std::filesystem::path& file) : json_(json), file_(file) {}

  /// A whole number from 0 to Number's maximum.
  template <class Number>
  void get(const char* key, Number& to) const {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
    const Json& value = json_.at(key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost)
      fail_input(file_.string(), ": ", key, ": expected a whole number from 0 to ", kMost,
                 ", found ", shown(value.dump()));
    to = value.get<Number>();
  }

  void get(const char* key, LossSum& to) const { to = loss_sum(key, json_.at(key)); }

  void get(const char* key, std::vector<LossSum>& to) const {
    for (const Json& loss : json_.at(key)) to.push_back(loss_sum(key, loss));
  }

 private:
  LossSum loss_sum(const char* key, const Json& json) const {
    LossSum loss{.sum = json.at("sum").get<double>()};
    Reader(json, file_).get("steps", loss.steps);
    if (loss.steps == 0 && loss.sum != 0)
      fail_input(file_.string(), ": ", key, ": expected a sum of 0 over 0 steps, found ", loss.sum);
    return loss;
  }

  const Json& json_;
  const std::filesystem::path& file_;
};

}  // namespace

Json to_json(const TrainerState& state, const std::vector<Optimizer::ParameterState>& parameters) {
  Json updates = Json::object();
  for (const auto& parameter : parameters) updates[parameter.name] = parameter.steps;
  return {{"format", kFormat},
          {"step", state.step},
          {"epoch", state.position.epoch},
          {"step_in_epoch", state.position.step},
          {"more_positions", to_json(state.more_positions)},
          {"arguments", state.arguments},
          {"generator",
           {{"seed", state.generator.seed},
            {"step", state.generator.step},
            {"draws", state.generator.draws}}},
          {"loss", to_json(state.loss)},
          {"epoch_loss", to_json(state.epoch_loss)},
          {"run_loss", to_json(state.run_loss)},
          {"lone_rows", state.lone_rows},
          {"dataset_losses", to_json(state.dataset_losses)},
          {"dataset_run_losses", to_json(state.dataset_run_losses)},
          {"best_metric", state.best ? Json(state.best->metric) : Json()},
          {"best_global_step", state.best ? Json(state.best->step) : Json()},
          {"best_output_dir", state.best.value_or(BestModel()).output_dir.string()},
          {"callbacks", state.callbacks},
          {"updates", std::move(updates)}};
}

TrainerState from_json(const Json& json, const std::filesystem::path& file) {
  TrainerState state;
  const Reader reader(json, file), generator(json.at("generator"), file);
  reader.get("step", state.step);
  reader.get("epoch", state.position.epoch);
  reader.get("step_in_epoch", state.position.step);
  for (const Json& position : json.at("more_positions")) {
    const Reader each(position, file);
    Position& at = state.more_positions.emplace_back();
    each.get("epoch", at.epoch);
    each.get("step", at.step);
  }
  json.at("arguments").get_to(state.arguments);
  generator.get("seed", state.generator.seed);
  generator.get("step", state.generator.step);
  generator.get("draws", state.generator.draws);
  reader.get("loss", state.loss);
  reader.get("epoch_loss", state.epoch_loss);
  reader.get("run_loss", state.run_loss);
  reader.get("lone_rows", state.lone_rows);
  reader.get("dataset_losses", state.dataset_losses);
  reader.get("dataset_run_losses", state.dataset_run_losses);
  if (!json.at("best_metric").is_null()) {
    state.best.emplace(BestModel{.metric = json.at("best_metric").get<double>()});
    reader.get("best_global_step", state.best->step);
    state.best->output_dir = json.at("best_output_dir").get<std::string>();
  }
  const Json& callbacks = json.at("callbacks");
  for (const auto& count : callbacks.items())
    Reader(callbacks, file).get(count.key().c_str(), state.callbacks[count.key()]);
  return state;
}

std::int64_t updates_from_json(const Json& json, const std::filesystem::path& file,
                               const std::string& parameter, std::int64_t steps) {
  std::int64_t updates = 0;
  Reader(json.at("updates"), file).get(parameter.c_str(), updates);
  if (updates > steps)
    fail_input(file.string(), ": updates of ", quote(parameter), ": expected at most its ", steps,
               " steps, found ", updates);
  return updates;
}

}  // namespace ringlet::train::checkpoint
