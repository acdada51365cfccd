#include "ringlet/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "ringlet/core/atomic_folder.h"
#include "ringlet/core/file.h"
#include "ringlet/core/safetensors.h"
#include "ringlet/nn/arena.h"

namespace ringlet::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 2;
constexpr const char* kModel = "model.safetensors";
constexpr const char* kMoments = "optimizer.safetensors";
constexpr const char* kState = "trainer_state.json";
constexpr std::string_view kPrefix = "checkpoint-";

NamedTensors saved_tensors(const nn::Module& module) {
  NamedTensors tensors;
  for (const nn::NamedParameter& named : module.named_parameters())
    tensors.emplace_back(named.name, named.parameter.tensor());
  for (auto& buffer : module.named_buffers()) tensors.push_back(buffer);
  return tensors;
}

Json to_json(const TrainerState::LossSum& loss) {
  return {{"sum", loss.sum}, {"steps", loss.steps}};
}

TrainerState::LossSum loss_sum_from(const Json& json) {
  return {json.at("sum").get<double>(), json.at("steps").get<std::int64_t>()};
}

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
  for (const Json& sum : json.at("dataset_losses"))
    state.dataset_losses.push_back(loss_sum_from(sum));
  return state;
}

void check_tensor(const SafeTensors& file, const std::string& name, const Tensor& expected) {
  if (!file.contains(name)) fail_input(file.path().string(), ": has no tensor '", name, "'");
  if (file.shape(name) != expected.shape())
    fail_input(file.path().string(), ": tensor '", name, "': expected shape ", expected.shape(),
               ", found ", file.shape(name));
  if (file.dtype(name) != expected.dtype())
    fail_input(file.path().string(), ": tensor '", name, "': expected ", expected.dtype(),
               ", found ", file.dtype(name));
}

void check_model(const SafeTensors& file, const NamedTensors& expected) {
  std::map<std::string, bool> known;
  for (const auto& [name, tensor] : expected) {
    check_tensor(file, name, tensor);
    known[name] = true;
  }
  for (const std::string& name : file.names())
    if (!known.contains(name))
      fail_input(file.path().string(), ": tensor '", name, "' is no parameter of this model");
}

/// The moments of every parameter, from the file, checked.
std::vector<Optimizer::ParameterState> read_moments(const SafeTensors& file, const Json& updates,
                                                    const nn::Module& module,
                                                    const Optimizer& optimizer) {
  std::vector<Optimizer::ParameterState> states;
  for (const nn::NamedParameter& named : module.named_parameters()) {
    Optimizer::ParameterState& state = states.emplace_back();
    state.name = named.name;
    updates.at(named.name).get_to(state.steps);
    if (state.steps == 0) continue;
    for (const std::string& moment : optimizer.moment_names()) {
      const std::string name = named.name + '/' + moment;
      check_tensor(file, name, named.parameter.tensor());
      state.moments.emplace_back(moment, file.load(name));
    }
  }
  return states;
}

std::optional<std::int64_t> step_of(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || step < 0) return std::nullopt;
  return step;
}

std::map<std::int64_t, std::filesystem::path> all_checkpoints(const std::filesystem::path& output) {
  std::map<std::int64_t, std::filesystem::path> found;
  for (const std::filesystem::path& path : list_folder(output))
    if (const auto step = step_of(path); step && folder_exists(path)) found[*step] = path;
  return found;
}

using OpenWriter = std::function<std::unique_ptr<SafeTensorsWriter>(
    const char* name, const std::vector<SafeTensorsWriter::Entry>& entries)>;

// Tensor after tensor, the same on every rank; rank 0 alone has writers.
void save_model(const nn::Module& module, nn::WholeParameters& whole, const OpenWriter& open) {
  std::vector<SafeTensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : saved_tensors(module))
    entries.push_back({name, tensor.dtype(), tensor.shape()});
  const auto writer = open(kModel, entries);
  std::map<std::string, Tensor> buffers;
  for (const auto& [name, buffer] : module.named_buffers()) buffers[name] = buffer;
  // As the writer orders them.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return itemsize(a.dtype) > itemsize(b.dtype);
  });
  for (const auto& [name, dtype, shape] : entries) {
    const auto buffer = buffers.find(name);
    const Tensor value = buffer != buffers.end() ? buffer->second : whole(module.parameter(name));
    if (writer) writer->write(name, value);
  }
  if (writer) writer->commit();
}

// What it returns has no moments.
std::vector<Optimizer::ParameterState> save_moments(const nn::Module& module, Optimizer& optimizer,
                                                    const OpenWriter& open) {
  std::vector<Optimizer::ParameterState> updates = optimizer.updates();
  std::vector<SafeTensorsWriter::Entry> entries;
  for (const auto& [name, steps, moments] : updates) {
    const nn::Parameter parameter = module.parameter(name);
    for (const std::string& moment : optimizer.moment_names())
      if (steps > 0) entries.push_back({name + '/' + moment, parameter.dtype(), parameter.shape()});
  }
  const auto writer = open(kMoments, entries);
  optimizer.visit_whole_state([&](const Optimizer::ParameterState& state) {
    for (const auto& [moment, value] : state.moments)
      if (writer) writer->write(state.name + '/' + moment, value);
  });
  if (writer) writer->commit();
  return updates;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& target, const nn::Module& module,
                     Optimizer& optimizer, const TrainerState& state) {
  nn::WholeParameters whole(module);
  std::optional<AtomicFolder> folder;
  if (whole.writes()) folder.emplace(target);
  const auto open = [&](const char* name, const std::vector<SafeTensorsWriter::Entry>& entries) {
    return folder ? std::make_unique<SafeTensorsWriter>(folder->path() / name, entries) : nullptr;
  };
  save_model(module, whole, open);
  const std::vector<Optimizer::ParameterState> updates = save_moments(module, optimizer, open);
  if (folder) {
    write_file(folder->path() / kState, to_json(state, updates).dump(1) + "\n");
    folder->commit();
  }
  whole.barrier();
}

TrainerState load_checkpoint(const std::filesystem::path& folder, nn::Module& module,
                             Optimizer& optimizer) {
  const std::filesystem::path state_path = folder / kState;
  const std::string text = read_file(state_path);
  TrainerState state;
  std::vector<Optimizer::ParameterState> moments;
  const SafeTensors model = SafeTensors::open(folder / kModel);
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat)
      fail_input(state_path.string(), ": expected format ", kFormat, ", found ",
                 json.at("format").dump());
    state = from_json(json);
    check_model(model, saved_tensors(module));
    moments =
        read_moments(SafeTensors::open(folder / kMoments), json.at("updates"), module, optimizer);
  } catch (const Json::exception& error) {
    fail_input(state_path.string(), ": not a trainer's state: ", error.what());
  }
  const auto sharding = nn::sharding_of(module);
  for (const nn::NamedParameter& named : module.named_parameters()) {
    if (sharding) {
      sharding->assign(named.parameter, model.load(named.name));
    } else {
      model.load_into(named.name, named.parameter.mutable_tensor());
    }
  }
  for (auto& [name, buffer] : module.named_buffers()) model.load_into(name, buffer);
  optimizer.load_state(moments);
  return state;
}

std::filesystem::path checkpoint_path(const std::filesystem::path& output, std::int64_t step) {
  return output / concat(kPrefix, step);
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& output) {
  const auto all = all_checkpoints(output);
  if (all.empty()) return std::nullopt;
  return all.rbegin()->second;
}

void rotate_checkpoints(const std::filesystem::path& output, std::size_t keep) {
  auto all = all_checkpoints(output);
  if (keep == 0) return;
  while (all.size() > keep) {
    remove_path(all.begin()->second);
    all.erase(all.begin());
  }
}

}  // namespace ringlet::train
