#include "ringlet/train/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/atomic_folder.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/nn/module_file.h"
#include "ringlet/nn/pack.h"
#include "ringlet/train/checkpoint/checkpoint_state.h"
#include "ringlet/train/checkpoint/checkpoint_writers.h"
#include "ringlet/train/data/draws.h"

namespace ringlet::train {
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kMoments = "optimizer.safetensors";

/// The digest of elements `at`, `at` + 1, … of a parameter. Digests are added: each rank computes
/// those of its parts.
std::uint64_t digest_of(const std::string& name, std::int64_t at, const Tensor& part) {
  const std::uint64_t seed = hash_text(name);
  std::uint64_t sum = 0;
  const Tensor here = part.to(Device{});
  const std::size_t size = itemsize(here.dtype());
  for (std::int64_t i = 0; i < here.numel(); ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, here.bytes() + static_cast<std::size_t>(i) * size, size);
    sum += mix64(seed + static_cast<std::uint64_t>(at + i), bits);
  }
  return sum;
}

/// The digest of the parameters that are not trained; empty if there are none. Collective.
std::string frozen_digest(const nn::Module& module) {
  const std::vector<nn::Parameter> parameters = module.parameters();
  if (std::ranges::all_of(parameters, &nn::Parameter::requires_grad)) return "";
  const checkpoint::Writers writers(module);
  const std::vector<nn::LocalSlice> slices = module.arena()->local_slices();
  std::uint64_t sum = 0;
  writers.for_parts(
      *module.arena(), slices,
      [&](const nn::PlacedParameter& slot, std::size_t s, auto at, auto begin, auto end) {
        if (slot.parameter.requires_grad()) return;
        const std::int64_t base = slices[s].begin;
        sum += digest_of(slot.name, at, slices[s].data.slice(begin - base, end - base));
      });
  return fmt::format("{:016x}", writers.sum(sum));
}

/// The model's file may lack parameters that are not trained: these are the run's own.
void check_model(const std::filesystem::path& folder, const SafeTensors& file, nn::Module& module) {
  nn::check_module(file, module, /*frozen=*/false);
  bool lacks = false;
  for (const SafeTensorsWriter::Entry& entry : nn::saved_tensors(module))
    lacks |= !file.contains(entry.name);
  if (!lacks) return;
  nn::pack(module);
  const JsonNode json = checkpoint::open_state(folder);
  const std::string saved = json.get_or("frozen", ""), here = frozen_digest(module);
  if (saved != here)
    fail_input(folder.string(),
               ": the parameters that are not trained: expected those of its run, ", "with digest ",
               saved, "; found ", here);
}

SafeTensors open_checked(const std::filesystem::path& folder, const char* name) {
  checkpoint::check_digest(folder, name);
  return SafeTensors::open(folder / name);
}

/// The moments of every parameter, read from the file and checked.
std::vector<Optimizer::ParameterState> read_moments(
    const SafeTensors& file, const std::function<std::int64_t(const std::string&)>& updates_of,
    const nn::Module& module, const Optimizer& optimizer) {
  std::vector<Optimizer::ParameterState> states;
  for (const nn::NamedParameter& named : module.named_parameters()) {
    Optimizer::ParameterState& state = states.emplace_back();
    state.name = named.name;
    state.steps = updates_of(named.name);
    for (const std::string& moment : optimizer.moment_names()) {
      const std::string name = named.name + '/' + moment;
      if (state.steps == 0 && file.contains(name))
        fail_input(file.path().string(), ": tensor ", quote(name), " of a parameter without an ",
                   "update, by ", checkpoint::kState);
      if (state.steps == 0) continue;
      const nn::Parameter& parameter = named.parameter;
      nn::check_tensor(file, {name, parameter.dtype(), nn::whole_shape(parameter)});
      state.moments.emplace_back(moment, nn::slice_of(parameter, file.load(name)));
    }
  }
  return states;
}

using Entries = std::vector<SafeTensorsWriter::Entry>;

Entries moment_entries(const nn::Module& module, const Optimizer& optimizer,
                       const std::vector<Optimizer::ParameterState>& updates) {
  Entries entries;
  for (const auto& [name, steps, moments] : updates) {
    const nn::Parameter parameter = module.parameter(name);
    for (const std::string& moment : optimizer.moment_names())
      if (steps > 0)
        entries.push_back({name + '/' + moment, parameter.dtype(), nn::whole_shape(parameter)});
  }
  return entries;
}

// Writes this rank's part of both files.
void write_parts(const checkpoint::Writers& writers, const nn::Module& module, Optimizer& optimizer,
                 SafeTensorsWriter& model, SafeTensorsWriter& moments) {
  nn::Arena& arena = *module.arena();
  const std::vector<nn::LocalSlice> slices = arena.local_slices();
  const std::vector<std::vector<Tensor>>& of_slices = optimizer.local_moments();
  const std::vector<Optimizer::ParameterState> updates = optimizer.updates();
  std::map<std::string, std::int64_t> steps;
  for (const auto& update : updates) steps[update.name] = update.steps;
  writers.for_parts(
      arena, slices,
      [&](const nn::PlacedParameter& slot, std::size_t s, auto at, auto begin, auto end) {
        const auto part = [&](const Tensor& of_slice) {
          return of_slice.slice(begin - slices[s].begin, end - slices[s].begin);
        };
        if (slot.parameter.requires_grad()) model.write(slot.name, at, part(slices[s].data));
        for (std::size_t k = 0; steps[slot.name] > 0 && k < optimizer.moment_names().size(); ++k)
          moments.write(slot.name + '/' + optimizer.moment_names()[k], at, part(of_slices[s][k]));
      });
  if (writers.rank() == 0)
    for (const auto& [name, buffer] : module.named_buffers())
      model.write(name, 0, buffer.view({-1}));
  model.commit();
  moments.commit();
}

}  // namespace

void save_checkpoint(const std::filesystem::path& target, const nn::Module& module,
                     Optimizer& optimizer, const TrainerState& state) {
  optimizer.check_steps();
  const checkpoint::Writers writers(module);
  const bool first = writers.rank() == 0;
  std::optional<AtomicFolder> folder;
  std::optional<SafeTensorsWriter> model, moments;
  const Entries entries = nn::saved_tensors(module, /*frozen=*/false);
  const std::string frozen = frozen_digest(module);
  const std::vector<Optimizer::ParameterState> updates = optimizer.updates();
  const auto open = [&](const std::filesystem::path& path, SafeTensorsWriter::Role role) {
    model.emplace(path / kModel, entries, role);
    moments.emplace(path / kMoments, moment_entries(module, optimizer, updates), role);
  };
  const std::filesystem::path path = writers.together([&]() -> std::string {
    if (!first) return "";
    folder.emplace(target);
    open(folder->path(), SafeTensorsWriter::Role::creates);
    return std::filesystem::absolute(folder->path()).string();
  });
  writers.together([&]() -> std::string {
    if (!first) open(path, SafeTensorsWriter::Role::joins);
    write_parts(writers, module, optimizer, *model, *moments);
    return "";
  });
  writers.together([&]() -> std::string {
    if (!first) return "";
    write_file(folder->path() / checkpoint::kState,
               checkpoint::to_json(state, updates, frozen).dump(1) + "\n");
    checkpoint::write_digests(folder->path());
    folder->commit();
    return "";
  });
}

TrainerState read_trainer_state(const std::filesystem::path& folder) {
  return checkpoint::from_json(checkpoint::open_state(folder));
}

void load_checkpoint_model(const std::filesystem::path& folder, nn::Module& module) {
  const SafeTensors model = open_checked(folder, kModel);
  check_model(folder, model, module);
  nn::load_module(module, model);
}

TrainerState load_checkpoint(const std::filesystem::path& folder, nn::Module& module,
                             Optimizer& optimizer) {
  const TrainerState state = read_trainer_state(folder);
  const SafeTensors model = open_checked(folder, kModel);
  check_model(folder, model, module);
  const JsonNode json = checkpoint::open_state(folder);
  const auto updates_of = [&](const std::string& parameter) {
    return checkpoint::updates_from_json(json, parameter);
  };
  const auto moments = read_moments(open_checked(folder, kMoments), updates_of, module, optimizer);
  nn::load_module(module, model);
  optimizer.load_state(moments);
  return state;
}

}  // namespace ringlet::train
