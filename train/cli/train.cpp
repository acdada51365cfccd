// `ringlet train`: text in, a trained Sentence Transformers folder out.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/models/tokenizer/trainer.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/interrupt.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/cli/train.h"

namespace ringlet::cli {
namespace {

/// The tokenizer of a new model: --vocab, or learned from the data.
models::Tokenizer new_tokenizer(const TrainOptions& options, const TrainingData& data) {
  const models::EncoderConfig config = models::EncoderConfig::named(options.model.model);
  const auto family = config.architecture == models::Architecture::mpnet
                          ? models::TokenizerFamily::kMpnet
                          : models::TokenizerFamily::kBert;
  const std::filesystem::path vocab = options.vocab;
  if (vocab.empty())
    return models::train_tokenizer(data.texts(),
                                   {.family = family, .vocab_size = config.vocab_size});
  if (vocab.extension() == ".json") return models::Tokenizer::from_file(vocab);
  return models::Tokenizer::from_vocab(vocab, {.family = family});
}

/// Names of random weights look like those of published ones.
void note_random_weights(const TrainOptions& options) {
  const std::string& model = options.model.model;
  const std::string published = models::EncoderConfig::published(model);
  if (from_scratch(options) && !published.empty())
    fmt::print(stderr, "{}: random weights; --model {} for the published ones\n", model, published);
}

/// Processors are shared out, unless --threads-per-device says how many each device gets.
void share_processors(const TrainOptions& options, int devices) {
  if (options.model.threads == 0)
    set_threads_per_device(std::max(1, threads_per_device() / devices));
}

/// Ranks of the attempt before may still be ending.
std::chrono::seconds patience(const comm::Environment& environment) {
  return std::chrono::seconds(environment.restart_count > 0 ? 30 : 0);
}

/// The memory limit of a device, until the run ends.
class MemoryLimit {
 public:
  MemoryLimit(Device device, std::size_t nbytes)
      : device_(device), before_(memory_stats(device).limit) {
    set_memory_limit(device, nbytes);
  }
  ~MemoryLimit() { set_memory_limit(device_, before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  Device device_;
  std::size_t before_;
};

/// The devices of a run's threads.
std::set<Device> devices_of(const TrainOptions& options, Device device, bool launched) {
  std::set<Device> devices{device};
  devices.insert(options.arguments.devices.begin(), options.arguments.devices.end());
  for (int i = 0; !launched && device.type != DeviceType::cpu && i < options.devices; ++i)
    devices.insert(device_of_rank(device, i));
  return devices;
}

}  // namespace

void train_model(TrainOptions options, const Command& command) {
  options.given = command.given();
  options.data.seed = options.arguments.seed;
  const comm::Environment environment = comm::Environment::read();
  const bool launched = environment.world_size > 1;
  const int parts = apply_mesh(options, environment.world_size);
  const train::Strategy strategy = options.arguments.strategy;
  const Device device = use_device(options.model);
  options.model.device = str(device);  // of `cuda`, this rank's
  if (strategy == train::Strategy::dp)
    for (int i = 0; i < options.devices; ++i)
      options.arguments.devices.push_back(device_of_rank(device, i));
  // A job that may lose ranks has the bits, and the steps, of all with which it began.
  if (options.arguments.logical_ranks == 0 &&
      options.arguments.mesh.pipe * options.arguments.mesh.tensor == 1 &&
      strategy != train::Strategy::dp && environment.ranks_at_start > 0) {
    options.arguments.logical_ranks = static_cast<std::size_t>(environment.ranks_at_start);
    options.given.emplace("--logical-ranks", str(environment.ranks_at_start));
  }
  check(options, environment);
  std::optional<OutputLock> lock;
  const bool first = environment.rank == 0 && !environment.joins;
  if (first) lock.emplace(options.arguments.output_dir, patience(environment));
  if (options.replay_to == 0) check_output(options, environment);
  if (!launched) share_processors(options, options.devices);
  options.data.readers = environment.world_size;
  TrainPlan plan{options, read_training_data(options.data), {}};
  check_batch(options, plan.data, parts);
  if (from_scratch(options)) plan.tokenizer = new_tokenizer(options, plan.data);
  check_random_weights(plan);
  if (first && !options.resume && !options.replay_to) note_random_weights(options);
  std::deque<MemoryLimit> limits;
  for (const Device one : devices_of(options, device, launched))
    limits.emplace_back(one, options.memory_limit);
  std::optional<KeptTraining> kept;
  if (environment.joins) kept = new_training(plan, {});  // before others wait for this rank
  if (launched)
    return comm::run_from_env(
        [&](const comm::Group& world) {
          if (world.rank() > 0)
            lock.reset();
          else if (!lock)  // rank 0 was killed, or is back
            lock.emplace(options.arguments.output_dir, std::chrono::seconds(30));
          name_options(command, [&] { train_rank(plan, world, kept); });
        },
        group_options(options), /*regroups=*/true);
  if (!train::traits(strategy).ranks) return train_rank(plan, comm::Group(), kept);
  const InterruptGuard signals;
  const bool on_cpu = device.type == DeviceType::cpu;
  const auto rank_main = [&](const comm::Group& group) {
    if (on_cpu) return name_options(command, [&] { train_rank(plan, group, kept); });
    TrainPlan own = plan;
    const Device mine = device_of_rank(device, group.rank());
    own.options.model.device = str(mine);
    const DefaultDeviceGuard here(mine);
    std::optional<KeptTraining> none;
    name_options(command, [&] { train_rank(own, group, none); });
  };
  try {
    // A forked child could not use the driver that its parent has looked for GPUs with.
    comm::launch(rank_main, options.devices,
                 {.ranks = on_cpu ? comm::Ranks::processes : comm::Ranks::threads,
                  .group = group_options(options),
                  .signal = [&] { return signals.caught_alone(); }});
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    if (signals.caught()) throw Interrupted(signals.caught(), error.what());
    throw;
  }
}

void add_train(Command& program) {
  Command& command = program.add_command("train", "Train a sentence encoder");
  const auto options = std::make_shared<TrainOptions>();
  add_train_options(command, *options);
  command.add_config();
  command.run = [&command, options] { train_model(*options, command); };
}

}  // namespace ringlet::cli
