#include "ringlet/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "ringlet/core/atomic_folder.h"
#include "ringlet/core/file.h"
#include "ringlet/core/quote.h"
#include "ringlet/core/safetensors.h"
#include "ringlet/nn/arena.h"

namespace ringlet::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 3;
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

/// What `read` makes of the JSON of trainer_state.json.
template <class Read>
auto read_json(const std::filesystem::path& folder, Read&& read) {
  const std::filesystem::path path = folder / kState;
  const std::string text = read_file(path);
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat)
      fail_input(path.string(), ": expected format ", kFormat, ", found ",
                 shown(json.at("format").dump()));
    return read(json);
  } catch (const Json::exception& error) {
    fail_input(path.string(), ": not a trainer's state: ", shown(error.what(), 200));
  }
}

void check_tensor(const SafeTensors& file, const std::string& name, const Tensor& expected) {
  if (!file.contains(name)) fail_input(file.path().string(), ": has no tensor ", quote(name));
  if (file.shape(name) != expected.shape())
    fail_input(file.path().string(), ": tensor ", quote(name), ": expected shape ",
               expected.shape(), ", found ", file.shape(name));
  if (file.dtype(name) != expected.dtype())
    fail_input(file.path().string(), ": tensor ", quote(name), ": expected ", expected.dtype(),
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
      fail_input(file.path().string(), ": tensor ", quote(name), " is no parameter of this model");
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

/// The ranks that write a checkpoint together; one, where nothing is dealt out.
class Writers {
 public:
  explicit Writers(const nn::Module& module) : sharding_(nn::sharding_of(module)) {}
  std::int64_t rank() const { return sharding_ ? sharding_->rank() : 0; }

  /// Runs `body` on every rank and returns what it gave on rank 0; what it threw on one it throws
  /// on all.
  std::string together(const std::function<std::string()>& body) const {
    std::string mine;
    try {
      mine = kGood + body();
    } catch (const InputError& error) {
      mine = str(kBad, error.what());
    }
    const std::vector<std::string> all =
        sharding_ ? sharding_->all_gather_bytes(mine) : std::vector<std::string>{mine};
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank][0] == kBad)
        throw InputError(str(all.size() > 1 ? str("rank ", rank, ": ") : "", all[rank].substr(1)));
    return all[0].substr(1);
  }

  /// Calls write(slot, slice, begin, end) with the elements of the arena that this rank writes, out
  /// of its local slices.
  template <class Write>
  void for_parts(nn::Arena& arena, const std::vector<nn::LocalSlice>& slices,
                 const Write& write) const {
    for (std::size_t s = 0; s < slices.size(); ++s) {
      const auto [first, last] = share(slices[s]);
      for (const nn::Unit& unit : arena.units())
        for (const nn::Slot& slot : unit.slots) {
          const std::int64_t begin = std::max(slot.offset, first);
          const std::int64_t end = std::min(slot.offset + slot.numel(), last);
          if (begin < end) write(slot, s, begin, end);
        }
    }
  }

 private:
  static constexpr char kGood = '+', kBad = '-';

  std::pair<std::int64_t, std::int64_t> share(const nn::LocalSlice& slice) const {
    if (!sharding_ || !sharding_->replicated()) return {slice.begin, slice.end};
    const std::int64_t n = slice.end - slice.begin, ranks = sharding_->size();
    return {slice.begin + n * rank() / ranks, slice.begin + n * (rank() + 1) / ranks};
  }

  std::shared_ptr<nn::Sharding> sharding_;
};

using Entries = std::vector<SafeTensorsWriter::Entry>;

Entries moment_entries(const nn::Module& module, const Optimizer& optimizer,
                       const std::vector<Optimizer::ParameterState>& updates) {
  Entries entries;
  for (const auto& [name, steps, moments] : updates) {
    const nn::Parameter parameter = module.parameter(name);
    for (const std::string& moment : optimizer.moment_names())
      if (steps > 0) entries.push_back({name + '/' + moment, parameter.dtype(), parameter.shape()});
  }
  return entries;
}

// This rank's part of both files.
void write_parts(const Writers& writers, const nn::Module& module, Optimizer& optimizer,
                 SafeTensorsParts& model, SafeTensorsParts& moments) {
  nn::Arena& arena = *module.arena();
  const std::vector<nn::LocalSlice> slices = arena.local_slices();
  const std::vector<std::vector<Tensor>>& of_slices = optimizer.local_moments();
  const std::vector<Optimizer::ParameterState> updates = optimizer.updates();
  std::map<std::string, std::int64_t> steps;
  for (const auto& update : updates) steps[update.name] = update.steps;
  writers.for_parts(arena, slices, [&](const nn::Slot& slot, std::size_t s, auto begin, auto end) {
    const auto part = [&](const Tensor& of_slice) {
      return of_slice.slice(begin - slices[s].begin, end - slices[s].begin);
    };
    model.write(slot.name, begin - slot.offset, part(slices[s].data));
    for (std::size_t k = 0; steps[slot.name] > 0 && k < optimizer.moment_names().size(); ++k)
      moments.write(slot.name + '/' + optimizer.moment_names()[k], begin - slot.offset,
                    part(of_slices[s][k]));
  });
  if (writers.rank() == 0)
    for (const auto& [name, buffer] : module.named_buffers())
      model.write(name, 0, buffer.view({-1}));
  model.sync();
  moments.sync();
}

}  // namespace

void save_checkpoint(const std::filesystem::path& target, const nn::Module& module,
                     Optimizer& optimizer, const TrainerState& state) {
  const Writers writers(module);
  const bool first = writers.rank() == 0;
  std::optional<AtomicFolder> folder;
  std::optional<SafeTensorsParts> model, moments;
  Entries entries;
  for (const auto& [name, tensor] : saved_tensors(module))
    entries.push_back({name, tensor.dtype(), tensor.shape()});
  const std::vector<Optimizer::ParameterState> updates = optimizer.updates();
  const auto open = [&](const std::filesystem::path& path, SafeTensorsParts::Role role) {
    model.emplace(path / kModel, entries, role);
    moments.emplace(path / kMoments, moment_entries(module, optimizer, updates), role);
  };
  const std::filesystem::path path = writers.together([&]() -> std::string {
    if (!first) return "";
    folder.emplace(target);
    open(folder->path(), SafeTensorsParts::Role::creates);
    return std::filesystem::absolute(folder->path()).string();
  });
  writers.together([&]() -> std::string {
    if (!first) open(path, SafeTensorsParts::Role::joins);
    write_parts(writers, module, optimizer, *model, *moments);
    return "";
  });
  writers.together([&]() -> std::string {
    if (!first) return "";
    write_file(folder->path() / kState, to_json(state, updates).dump(1) + "\n");
    folder->commit();
    return "";
  });
}

TrainerState read_trainer_state(const std::filesystem::path& folder) {
  return read_json(folder, from_json);
}

TrainerState load_checkpoint(const std::filesystem::path& folder, nn::Module& module,
                             Optimizer& optimizer) {
  const TrainerState state = read_trainer_state(folder);
  const SafeTensors model = SafeTensors::open(folder / kModel);
  check_model(model, saved_tensors(module));
  const auto moments = read_json(folder, [&](const Json& json) {
    return read_moments(SafeTensors::open(folder / kMoments), json.at("updates"), module,
                        optimizer);
  });
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
  return output / str(kPrefix, step);
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& output) {
  const auto all = all_checkpoints(output);
  if (all.empty()) return std::nullopt;
  return all.rbegin()->second;
}

void remove_unfinished_checkpoints(const std::filesystem::path& output) {
  remove_unfinished(output, [](const std::string& name) { return step_of(name).has_value(); });
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
