#include "ringlet/train/cli/drill_rank.h"

#include <sys/socket.h>
#include <csignal>
#include <limits>

#include <algorithm>
#include <array>
#include <utility>

#include "ringlet/autograd/functions/softmax.h"
#include "ringlet/comm/environment.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/file.h"
#include "ringlet/core/quote.h"
#include "ringlet/nn/arena.h"
#include "ringlet/nn/dropout.h"
#include "ringlet/nn/linear.h"
#include "ringlet/nn/loss.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/cli/drill_saving.h"
#include "ringlet/train/data/synthetic.h"
#include "ringlet/train/digits.h"
#include "ringlet/train/trainer.h"

namespace ringlet::cli {
namespace {

constexpr std::pair<Fault, std::string_view> kNames[] = {
    {Fault::none, "none"},
    {Fault::killed, "killed"},
    {Fault::killed_saving, "killed_saving"},
    {Fault::stopped, "stopped"},
    {Fault::closed_socket, "closed_socket"},
    {Fault::skipped, "skipped"},
    {Fault::other_op, "other_op"},
    {Fault::other_size, "other_size"},
    {Fault::nan, "nan"},
    {Fault::disk_full, "disk_full"},
};

constexpr std::size_t kDigits = 600;
constexpr std::size_t kBatch = 8;
constexpr std::int64_t kSaveSteps = 2;
constexpr std::int64_t kPixels = 28 * 28;
constexpr std::int64_t kHiddenUnits = 32;

/// Two linear layers with dropout between.
class Net final : public nn::Layer<Net> {
 public:
  Variable forward(const Tensor& images, const Tensor& positions) {
    const Variable x = autograd::relu((*in_)(Variable(images.view({-1, kPixels}))));  // (N, 32)
    return autograd::log_softmax((*out_)((*dropout_)(x, positions)));                 // (N, 10)
  }

 private:
  std::shared_ptr<nn::Linear> in_ =
      register_module("in", std::make_shared<nn::Linear>(kPixels, kHiddenUnits));
  std::shared_ptr<nn::Dropout> dropout_ =
      register_module("dropout", std::make_shared<nn::Dropout>(0.1));
  std::shared_ptr<nn::Linear> out_ =
      register_module("out", std::make_shared<nn::Linear>(kHiddenUnits, 10));
};

std::int64_t first_layer_weights() { return kPixels * kHiddenUnits; }

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

/// The fault of this rank, in one step of the training.
class Incident {
 public:
  Incident(const DrillRank& drill, const comm::Group& group, const nn::Module& module, bool armed)
      : drill_(drill),
        group_(group),
        module_(module),
        armed_(armed && drill.fault != Fault::none) {}

  /// Called before each forward; returns the factor of the loss.
  double operator()(std::int64_t step) {
    if (!armed_ || step != drill_.at || hits_checkpoint(drill_.fault)) return 1;
    const bool mine = is_mine();
    switch (drill_.fault) {
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
        if (!mine) group_.barrier();
        break;
      case Fault::other_op:
        mine ? static_cast<void>(group_.all_gather_bytes("")) : group_.barrier();
        break;
      case Fault::other_size:
        group_.all_reduce(zeros({mine ? 65 : 64})).wait();
        break;
      case Fault::nan:
        return mine ? std::numeric_limits<double>::quiet_NaN() : 1;
      case Fault::disk_full:
      case Fault::killed_saving:
      case Fault::none:
        break;
    }
    return 1;
  }

  /// After each step, before it saves.
  void before_checkpoint(std::int64_t step, SavingFault& fault) {
    if (!armed_ || step != drill_.at || !hits_checkpoint(drill_.fault) || !is_mine()) return;
    // The first layer's weights come first in both files, there twice: they have two moments.
    const std::int64_t weights = first_layer_weights(), arena = module_.arena()->numel();
    const std::int64_t begin = arena * group_.rank() / group_.size();
    const std::int64_t end = std::min(weights, arena * (group_.rank() + 1) / group_.size());
    fault.arm(static_cast<std::size_t>(begin) * sizeof(float),
              static_cast<std::size_t>(weights + end) * sizeof(float));
  }

 private:
  bool is_mine() const {
    const bool mine = group_.rank() == drill_.culprit;
    if (mine) write_file(drill_.folder / "fault_at", "");
    return mine;
  }

  const DrillRank& drill_;
  const comm::Group& group_;
  const nn::Module& module_;
  bool armed_;
};

void train_digits(const DrillRank& drill, const comm::Group& group, bool armed,
                  SavingFault& saving_fault) {
  const train::Digits digits = train::make_digits(/*seed=*/1, /*split=*/0, kDigits);
  const GeneratorGuard random({.seed = 1});
  Net net;
  Incident incident(drill, group, net, armed);
  const std::filesystem::path output = drill.folder / "run";
  const std::optional<std::filesystem::path> latest = train::latest_checkpoint(output);
  train::Trainer trainer(
      net, kDigits, [&](const train::Rows& rows) { return train::collate_digits(digits, rows); },
      [&, step = std::int64_t{0}](const train::DigitBatch& batch) mutable {
        const double factor = incident(++step);
        const Variable loss = nn::nll_loss(net(batch.images, batch.positions), batch.labels);
        return factor == 1 ? loss : loss * factor;
      },
      {.output = output,
       .max_steps = drill.steps,
       .batch_size = kBatch,
       .lr = 1e-3,
       .max_grad_norm = 1,
       .strategy = train::Strategy::ddp,
       .logging_steps = 0,
       .eval_each_epoch = false,
       .save_steps = kSaveSteps,
       .resume_from = latest.value_or("")},
      group);
  trainer.set_callbacks({.on_step = [&](const train::StepReport& at) {
    incident.before_checkpoint(at.step, saving_fault);
  }});
  trainer.train();
}

std::string names_in(const std::filesystem::path& folder) {
  std::string names;
  for (const std::filesystem::path& path : list_folder(folder))
    names += path.filename().string() + '\n';
  return names;
}

}  // namespace

std::string_view name(Fault fault) {
  for (const auto& [known, name] : kNames)
    if (known == fault) return name;
  return "";
}

Fault parse_fault(std::string_view text) {
  std::string names;
  for (const auto& [fault, name] : kNames) {
    if (name == text) return fault;
    names += str(names.empty() ? "" : ", ", name);
  }
  fail_input("fault: expected one of ", names, ", found ", quote(text));
}

bool needs_processes(Fault fault) {
  return fault == Fault::killed || fault == Fault::stopped || fault == Fault::closed_socket ||
         hits_checkpoint(fault);
}

bool hits_checkpoint(Fault fault) {
  return fault == Fault::killed_saving || fault == Fault::disk_full;
}

int saving_ranks(int ranks) {
  Net net;
  const std::int64_t arena = nn::plan(net)->numel();
  // Rank r's share begins at r / ranks of the arena.
  return static_cast<int>((first_layer_weights() * ranks + arena - 1) / arena);
}

std::int64_t next_checkpoint(std::int64_t step, std::int64_t steps) {
  return std::min(steps, (step + kSaveSteps - 1) / kSaveSteps * kSaveSteps);
}

std::vector<Fault> all_faults(bool processes) {
  std::vector<Fault> faults;
  for (const auto& [fault, name] : kNames)
    if (fault != Fault::none && (processes || !needs_processes(fault))) faults.push_back(fault);
  return faults;
}

void run_drill_rank(const DrillRank& drill) {
  SavingFault saving_fault(drill.folder, drill.culprit, drill.point,
                           drill.fault == Fault::killed_saving);
  comm::GroupOptions options{
      .transport = drill.transport,
      .timeout = comm::Timeout(static_cast<std::int64_t>(drill.timeout * 1000))};
  const comm::Environment environment = comm::Environment::read();
  const bool armed = environment.restart_count == 0;
  if (!armed && environment.rank == 0)
    write_file(drill.folder / "restarted_at", names_in(drill.folder / "run"));
  const auto rank_main = [&](const comm::Group& group) {
    train_digits(drill, group, armed, saving_fault);
  };
  if (drill.transport == comm::TransportKind::thread)
    return comm::launch(rank_main, drill.ranks, {.ranks = comm::Ranks::threads, .group = options});
  if (armed && hits_checkpoint(drill.fault) && environment.rank == drill.culprit)
    options.trace = saving_fault.trace();
  comm::run_from_env(rank_main, options);
}

}  // namespace ringlet::cli
