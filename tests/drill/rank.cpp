#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <limits>
#include <optional>

#include "../train/words.h"
#include "net.h"
#include "ringlet/comm/environment.h"
#include "ringlet/comm/launch.h"
#include "ringlet/comm/observer.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/nn/arena.h"
#include "ringlet/nn/replace.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/data/synthetic.h"
#include "ringlet/train/trainer.h"
#include "trial.h"

namespace ringlet::drill {
namespace {

namespace fs = std::filesystem;

// Both ends of every connection see it end.
void break_connections() {
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        address.ss_family != AF_UNIX)
      ::shutdown(fd, SHUT_RDWR);
  }
}

std::string killed_at;  // for the handler

// Runs in the thread that writes, in the middle of its write.
void die(int) {
  ::close(::open(killed_at.c_str(), O_CREAT | O_WRONLY, 0600));
  std::raise(SIGKILL);
}

/// Whether a checkpoint under construction in `output` has its files.
bool files_exist(const fs::path& output) {
  const std::vector<fs::path> paths = list_folder(output);
  return std::any_of(paths.begin(), paths.end(), [](const fs::path& path) {
    return path.filename().string().starts_with(".checkpoint-") &&
           path_exists(path / "optimizer.safetensors");
  });
}

/// The fault, on each rank. As GroupOptions::observer it runs at every collective, also at the one
/// between creating a checkpoint's files and writing them.
class Incident final : public comm::CollectiveObserver {
 public:
  Incident(const Trial& trial, bool armed) : trial_(trial), armed_(armed) {}

  /// Whether this rank has other rows in this attempt.
  bool other_rows(const comm::Group& group) const {
    return armed_ && trial_.fault == Fault::other_rows && is_mine(group);
  }

  /// Called before each forward; returns the factor of the loss.
  double before_step(std::int64_t step, const comm::Group& group) {
    if (!armed_ || step != trial_.at || trial_.saving()) return 1;
    const bool mine = is_mine(group);
    switch (trial_.fault) {
      case Fault::killed:
        if (mine) std::raise(SIGKILL);
        break;
      case Fault::stopped:
        if (mine) std::raise(SIGSTOP);
        break;
      case Fault::closed_socket:
        if (mine) break_connections();
        break;
      case Fault::skipped:
        if (!mine) group.barrier();
        break;
      case Fault::other_op:
        mine ? static_cast<void>(group.all_gather_bytes("")) : group.barrier();
        break;
      case Fault::other_size:
        group.all_reduce(zeros({mine ? 65 : 64})).wait();
        break;
      case Fault::nan:
        return mine ? std::numeric_limits<double>::quiet_NaN() : 1;
      default:
        break;
    }
    return 1;
  }

  /// Called after each step, before it saves an arena of `numel` parameters.
  void before_save(std::int64_t step, const comm::Group& group, std::int64_t numel) {
    if (!armed_ || step != trial_.at || !trial_.saving() || !is_mine(group)) return;
    // The first layer's weights come first in both files, and twice in the larger one: they have
    // two moments. This rank writes the elements from `begin` on, there up to weights + `end`.
    const std::int64_t weights = kPixels * kHiddenUnits;
    const std::int64_t begin = numel * trial_.culprit / kRanks;
    const std::int64_t end = weights + std::min(weights, numel * (trial_.culprit + 1) / kRanks);
    double point = trial_.point;
    if (trial_.culprit == 0) point = trial_.creating() ? 2 * point : 2 * point - 1;
    limit_ = sizeof(float) * static_cast<std::size_t>(begin);
    limit_ += static_cast<std::size_t>(point * static_cast<double>(end - begin) * sizeof(float));
    trial_.creating() ? limit_writes() : waiting_.store(true);
  }

 private:
  void begins(const comm::Collective&, const comm::Membership&) override {
    if (waiting_ && files_exist(trial_.folder / "run") && waiting_.exchange(false)) limit_writes();
  }

  // From now on no write of this process beyond the limit succeeds, as on a full disk.
  void limit_writes() const {
    killed_at = (trial_.folder / "killed_at").string();
    std::signal(SIGXFSZ, trial_.fault == Fault::killed_saving ? die : SIG_IGN);
    const rlimit limit{limit_, RLIM_INFINITY};
    RINGLET_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "[drill] cannot limit the size of files");
  }

  bool is_mine(const comm::Group& group) const {
    const bool mine = group.rank() == trial_.culprit;
    if (mine) write_file(trial_.folder / "fault_at", "");
    return mine;
  }

  const Trial& trial_;
  const bool armed_;
  std::size_t limit_ = 0;  // bytes of each file
  std::atomic<bool> waiting_{false};
};

/// A layer that calls `before` first.
class Tripwire final : public nn::UnaryModule {
 public:
  Tripwire(std::shared_ptr<nn::UnaryModule> layer, std::function<void()> before)
      : layer_(register_module("", std::move(layer))), before_(std::move(before)) {}
  Variable forward(const Variable& x) override {
    before_();
    return (*layer_)(x);
  }

 private:
  std::shared_ptr<nn::UnaryModule> layer_;
  std::function<void()> before_;
};

train::TrainingArguments arguments_of(const Trial& trial) {
  const fs::path output = trial.folder / "run";
  return {.output_dir = output,
          .max_steps = kSteps,
          .per_device_train_batch_size = 8,
          .learning_rate = 1e-3,
          .max_grad_norm = 1,
          .strategy = train::Strategy::ddp,
          .logging_steps = 0,
          .save_steps = kSaveSteps,
          .resume_from_checkpoint = train::latest_checkpoint(output).value_or("")};
}

/// The fault strikes in one layer of the rank, which runs once for each micro-batch.
void train_encoder(const Trial& trial, const comm::Group& group, Incident& incident) {
  const bool in_slices = trial.job == Job::tensor;
  const GeneratorGuard random({.seed = 1});
  models::EncoderConfig config = words::encoder_config(models::Architecture::bert);
  config.num_hidden_layers = config.num_attention_heads = kRanks;
  config.hidden_size = 8 * kRanks;
  const models::SentenceEncoder encoder(config, words::tokenizer());
  nn::replace<nn::UnaryModule>(
      *encoder.modules(), {str("encoder.layer.", in_slices ? "1" : "*", ".output.dense")},
      [&, calls = std::make_shared<std::int64_t>(0)](std::shared_ptr<nn::UnaryModule> layer) {
        return std::make_shared<Tripwire>(std::move(layer), [&, calls] {
          const std::int64_t call = (*calls)++;
          if (call % kMicroBatches == trial.micro_batch())
            incident.before_step(call / kMicroBatches + 1, group);
        });
      });
  models::CosineSimilarityLoss loss(encoder);
  train::TrainingArguments arguments = arguments_of(trial);
  arguments.per_device_train_batch_size = 1;
  arguments.gradient_accumulation_steps = kMicroBatches;
  arguments.shuffle = false;
  (in_slices ? arguments.mesh.tensor : arguments.mesh.pipe) = kRanks;
  const auto rows = std::make_shared<train::TextDataset>(
      "pairs", std::vector<std::string>{"sentence1", "sentence2"}, train::Target::score);
  const bool other = incident.other_rows(group);
  const std::int64_t at = (trial.at - 1) * kMicroBatches + trial.micro_batch();
  for (std::int64_t i = 0; i < kSteps * kMicroBatches; ++i) {
    // Texts of one length, so that the rows of a step are its micro-batches in order.
    static_assert(kMicroBatches == 4, "words::text has four texts of each length");
    const auto row = static_cast<std::size_t>(i);
    const std::string first = words::text(other && i == at ? row ^ 2 : row);
    const std::string second = words::text(row ^ 1);
    rows->add_row(std::vector<std::string_view>{first, second}, static_cast<double>(i % 2));
  }
  train::Trainer(loss, {rows}, encoder.tokenizer(), arguments, group).train();
}

void train_digits(const Trial& trial, const comm::Group& group, Incident& incident) {
  const train::Digits digits = train::make_digits(/*seed=*/1, /*split=*/0, kDigits);
  const GeneratorGuard random({.seed = 1});
  Net net;
  train::Trainer trainer(
      net, kDigits, [&](const train::Rows& rows) { return train::collate_digits(digits, rows); },
      [&, step = std::int64_t{0}](const train::DigitBatch& batch) mutable {
        const double factor = incident.before_step(++step, group);
        const Variable loss = net.loss(batch);
        return factor == 1 ? loss : loss * factor;
      },
      arguments_of(trial), group);
  trainer.add_callback({.on_step_end = [&](const train::StepReport& at) {
    incident.before_save(at.step, group, net.arena()->numel());
  }});
  trainer.train();
}

}  // namespace

void run_rank(const Trial& trial) {
  const comm::Environment environment = comm::Environment::read();
  const bool armed = environment.restart_count == 0 && trial.fault != Fault::none;
  if (environment.restart_count > 0 && environment.rank == 0) {
    std::string names;
    for (const fs::path& path : list_folder(trial.folder / "run"))
      names += path.filename().string() + '\n';
    write_file(trial.folder / "restarted_at", names);
  }
  Incident incident(trial, armed);
  comm::GroupOptions options{.transport = trial.transport, .timeout = kTimeout};
  const auto rank_main = [&](const comm::Group& group) {
    const auto train = trial.of_encoder() ? train_encoder : train_digits;
    train(trial, group, incident);
  };
  if (trial.processes() == 1) return comm::launch(rank_main, kRanks, {.group = options});
  if (armed && trial.saving() && environment.rank == trial.culprit) options.observer = &incident;
  comm::run_from_env(rank_main, options);
  if (armed) write_file(trial.folder / str("ended_", environment.rank), "");
}

}  // namespace ringlet::drill
