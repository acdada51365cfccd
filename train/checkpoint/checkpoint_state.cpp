#include "ringlet/train/checkpoint/checkpoint_state.h"

#include <limits>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::train::checkpoint {
namespace {

constexpr int kFormat = 7;

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

/// A whole number from 0 to Number's maximum.
template <class Number>
void get(const JsonNode& json, const std::string& key, Number& to) {
  to = static_cast<Number>(
      json.at(key).count(static_cast<std::uint64_t>(std::numeric_limits<Number>::max())));
}

void get(const JsonNode& json, LossSum& to) {
  to.sum = json.at("sum").number();
  get(json, "steps", to.steps);
  if (to.steps == 0 && to.sum != 0)
    fail_input(json.name(), ": expected a sum of 0 over 0 steps, found ", to.sum);
}

void get(const JsonNode& json, std::vector<LossSum>& to) {
  for (std::size_t i = 0; i < json.array().size(); ++i) get(json.at(i), to.emplace_back());
}

}  // namespace

Json to_json(const TrainerState& state, const std::vector<Optimizer::ParameterState>& parameters,
             const std::string& frozen) {
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
          {"frozen", frozen.empty() ? Json() : Json(frozen)},
          {"updates", std::move(updates)}};
}

JsonNode open_state(const std::filesystem::path& folder) {
  const JsonNode json(folder / kState);
  if (json.at("format").value() != kFormat)
    json.at("format").expected(str(kFormat, ", the format of this release"));
  return json;
}

TrainerState from_json(const JsonNode& json) {
  TrainerState state;
  get(json, "step", state.step);
  get(json, "epoch", state.position.epoch);
  get(json, "step_in_epoch", state.position.step);
  const JsonNode positions = json.at("more_positions").array();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    Position& at = state.more_positions.emplace_back();
    get(positions.at(i), "epoch", at.epoch);
    get(positions.at(i), "step", at.step);
  }
  const JsonNode arguments = json.at("arguments").object();
  for (const auto& [name, value] : arguments.value().items())
    state.arguments[name] = arguments.at(name).text();
  const JsonNode generator = json.at("generator");
  get(generator, "seed", state.generator.seed);
  get(generator, "step", state.generator.step);
  get(generator, "draws", state.generator.draws);
  get(json.at("loss"), state.loss);
  get(json.at("epoch_loss"), state.epoch_loss);
  get(json.at("run_loss"), state.run_loss);
  get(json, "lone_rows", state.lone_rows);
  get(json.at("dataset_losses"), state.dataset_losses);
  get(json.at("dataset_run_losses"), state.dataset_run_losses);
  if (!json.at("best_metric").value().is_null()) {
    state.best.emplace(BestModel{.metric = json.at("best_metric").number()});
    get(json, "best_global_step", state.best->step);
    state.best->output_dir = json.at("best_output_dir").text();
  }
  const JsonNode callbacks = json.at("callbacks").object();
  for (const auto& [name, count] : callbacks.value().items())
    get(callbacks, name, state.callbacks[name]);
  return state;
}

std::int64_t updates_from_json(const JsonNode& json, const std::string& parameter,
                               std::int64_t steps) {
  std::int64_t updates = 0;
  get(json.at("updates"), parameter, updates);
  if (updates > steps)
    fail_input(json.name(), ": updates of ", quote(parameter), ": expected at most its ", steps,
               " steps, found ", updates);
  return updates;
}

}  // namespace ringlet::train::checkpoint
