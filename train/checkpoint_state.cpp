#include "ringlet/train/checkpoint_state.h"

#include <utility>

namespace ringlet::train::checkpoint {
namespace {

Json to_json(const TrainerState::LossSum& loss) {
  return {{"sum", loss.sum}, {"steps", loss.steps}};
}

TrainerState::LossSum loss_sum_from(const Json& json) {
  return {json.at("sum").get<double>(), json.at("steps").get<std::int64_t>()};
}

}  // namespace

Json to_json(const TrainerState& state, const std::vector<Optimizer::ParameterState>& parameters) {
  Json losses = Json::array();
  for (const TrainerState::LossSum& loss : state.dataset_losses) losses.push_back(to_json(loss));
  Json updates = Json::object();
  for (const auto& parameter : parameters) updates[parameter.name] = parameter.steps;
  return {{"format", kFormat},
          {"step", state.step},
          {"epoch", state.position.epoch},
          {"step_in_epoch", state.position.step},
          {"total_steps", state.total_steps},
          {"data", state.fingerprint},
          {"arguments", state.arguments},
          {"generator",
           {{"seed", state.generator.seed},
            {"step", state.generator.step},
            {"draws", state.generator.draws}}},
          {"loss", to_json(state.loss)},
          {"epoch_loss", to_json(state.epoch_loss)},
          {"run_loss", to_json(state.run_loss)},
          {"lone_rows", state.lone_rows},
          {"dataset_losses", std::move(losses)},
          {"updates", std::move(updates)}};
}

TrainerState from_json(const Json& json) {
  TrainerState state;
  json.at("step").get_to(state.step);
  json.at("epoch").get_to(state.position.epoch);
  json.at("step_in_epoch").get_to(state.position.step);
  json.at("total_steps").get_to(state.total_steps);
  json.at("data").get_to(state.fingerprint);
  json.at("arguments").get_to(state.arguments);
  json.at("generator").at("seed").get_to(state.generator.seed);
  json.at("generator").at("step").get_to(state.generator.step);
  json.at("generator").at("draws").get_to(state.generator.draws);
  state.loss = loss_sum_from(json.at("loss"));
  state.epoch_loss = loss_sum_from(json.at("epoch_loss"));
  state.run_loss = loss_sum_from(json.at("run_loss"));
  json.at("lone_rows").get_to(state.lone_rows);
  for (const Json& sum : json.at("dataset_losses"))
    state.dataset_losses.push_back(loss_sum_from(sum));
  return state;
}

}  // namespace ringlet::train::checkpoint
