// Steps of ranks with a GPU each, captured and compared with eager ones. Needs several GPUs with
// peer access, which run the ranks in one launch each, or fake_nccl.h.
#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "../../device.h"
#include "../../message.h"
#include "../words.h"
#include "graph_steps.h"
#include "ringlet/autograd/node.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/train/trainer.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const comm::GroupOptions kInKernel{.algorithm = comm::Algorithm::in_kernel_direct};
const comm::GroupOptions kNccl{.transport = comm::TransportKind::nccl};

/// Ranks of it capture their steps here: over NCCL, or with collectives of one launch.
std::optional<comm::GroupOptions> captured_group() {
  if (has_fake_nccl) return kNccl;
  if (has_backend(DeviceType::cuda)) {
    DeviceBackend& gpus = backend(DeviceType::cuda);
    const std::vector<Device> two{{DeviceType::cuda, 0}, {DeviceType::cuda, 1}};
    if (gpus.device_count() > 1 && why_no_graphs(two[0]).empty() && gpus.make_ranks(two, 1))
      return kInKernel;
  }
  MESSAGE("skipped: needs several GPUs with peer access");
  return std::nullopt;
}

bool has_nccl() {
  if (!has_fake_nccl) MESSAGE("skipped: only a device of delayed_device.h can tell");
  return has_fake_nccl;
}

void launch_ranks(int ranks, const std::function<void(const comm::Group&)>& body,
                  const comm::GroupOptions& options) {
  comm::launch(body, ranks, {.ranks = comm::Ranks::threads, .group = options});
}

/// The result of a rank.
struct Trained {
  std::vector<double> losses;
  std::vector<float> values;
  std::vector<std::string> notes;
  std::int64_t replayed = 0;
};

/// Twelve steps on two data sets with a loss each, the last ones of an epoch with fewer rows.
Trained train_rank(const comm::Group& group, TrainingArguments arguments) {
  const Device device{DeviceType::cuda, group.rank()};
  const models::SentenceEncoder encoder = encoder_on(device, 0.1);
  const auto loss = two_losses<models::CosineSimilarityLoss>(encoder);
  const Datasets data{words::dataset(48, 3), words::scored_dataset(40)};
  arguments.max_steps = 12;
  arguments.per_device_train_batch_size =
      16 / static_cast<std::size_t>(std::max<std::int64_t>(group.size(), arguments.logical_ranks));
  arguments.learning_rate = 1e-2;
  arguments.warmup_ratio = 0.3;
  arguments.weight_decay = 0.01;
  arguments.strategy_options.bucket_cap_mb = 1.0 / 256;
  Trained out;
  Trainer trainer(*loss, data, words::tokenizer(), arguments, group);
  trainer.add_callback(
      {.on_step_end = [&](const StepReport& at) { out.losses.push_back(at.result.loss); },
       .on_note = [&](const std::string& line) { out.notes.push_back(line); }});
  out.replayed = trainer.train().replayed_steps;
  out.values = parameter_values(*loss);
  return out;
}

/// All ranks', in their order.
std::vector<Trained> train_ranks(int ranks, const TrainingArguments& arguments,
                                 const comm::GroupOptions& options) {
  std::vector<Trained> all(static_cast<std::size_t>(ranks));
  launch_ranks(
      ranks,
      [&](const comm::Group& group) {
        all[static_cast<std::size_t>(group.rank())] = train_rank(group, arguments);
      },
      options);
  return all;
}

/// A rank's encoder under DDP, and its single steps.
struct RankSteps {
  explicit RankSteps(const comm::Group& its, StepGraphMode mode = StepGraphMode::automatic)
      : group(its),
        device{DeviceType::cuda, group.rank()},
        seed({6, 0, 0}),
        loss(encoder_on(device, 0.1), 3),
        ddp(loss, group, {.bucket_cap_mb = 1.0 / 256}),
        optimizer(loss, {.lr = 1e-2, .max_grad_norm = 1}),
        graphs(loss, optimizer, device, {.mode = mode, .on_note = [this](const std::string& line) {
                                           notes.push_back(line);
                                         }}) {}

  double step(const models::PackedBatch& batch) { return step(batch, work_of(loss)); }
  double step(const models::PackedBatch& batch, const StepGraphs::Work& work) {
    const double value = graphs.run(batch, work).item<double>();
    optimizer.finish_step();
    optimizer.zero_grad();
    return value;
  }

  comm::Group group;
  Device device;
  GeneratorGuard seed;
  std::vector<std::string> notes;
  models::SoftmaxLoss loss;
  DistributedDataParallel ddp;
  AdamW optimizer;
  StepGraphs graphs;
};

/// A batch of a key of its own for each length in 0 to 2.
models::PackedBatch batch_of(int rank, int step, int length) {
  const std::size_t rows[] = {4, 7, 9};
  return pairs_of(rows[length], rank + step);
}

}  // namespace

TEST_CASE("captured steps of ranks have the bits of eager ones, and of one device") {
  const auto options = captured_group();
  if (!options) return;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1})
    for (const int ranks : {2, 4}) {
      const DType dtype = strategy == Strategy::ddp ? DType::bf16 : DType::f32;
      if (ranks > backend(DeviceType::cuda).device_count()) continue;
      CAPTURE(strategy);
      CAPTURE(ranks);
      TrainingArguments arguments{.dtype = dtype, .strategy = strategy};
      const comm::GroupOptions automatic;  // chooses the same
      const bool chooses = strategy == Strategy::ddp && comm::is_in_kernel(options->algorithm);
      const auto captured = train_ranks(ranks, arguments, chooses ? automatic : *options);
      arguments.step_graphs = StepGraphMode::off;
      const auto eager = train_ranks(ranks, arguments, *options);
      arguments.logical_ranks = ranks;
      const auto one = train_ranks(1, arguments, {.algorithm = comm::Algorithm::direct});
      for (std::size_t rank = 0; rank < captured.size(); ++rank) {
        CHECK(captured[rank].notes.empty());
        CHECK(captured[rank].replayed >= 4);
        CHECK(captured[rank].replayed == captured[0].replayed);
        CHECK(eager[rank].replayed == 0);
        CHECK(captured[rank].losses == eager[rank].losses);
        CHECK(captured[rank].values == eager[rank].values);
        CHECK(captured[rank].values == one[0].values);
      }
      CHECK(captured[0].losses == one[0].losses);
    }
}

TEST_CASE("ranks with different shapes replay graphs that were captured in different steps") {
  const auto options = captured_group();
  if (!options) return;
  // By rank and step. A step with a shape that is new on some rank runs eagerly on both.
  const std::vector<std::vector<int>> lengths{{0, 1, 0, 1, 1, 0, 2, 2, 0, 1},
                                              {0, 0, 1, 1, 0, 1, 1, 0, 0, 1}};
  const std::vector<bool> replays{false, false, false, true, true, true, false, true, true, true};
  std::vector<std::vector<float>> eager(2);
  for (const StepGraphMode mode : {StepGraphMode::off, StepGraphMode::automatic}) {
    const auto body = [&](const comm::Group& group) {
      RankSteps steps(group, mode);
      const auto rank = static_cast<std::size_t>(group.rank());
      for (std::size_t i = 0; i < replays.size(); ++i) {
        const std::size_t replayed = steps.graphs.replayed();
        const std::uint64_t calls = group.stats().collectives;
        steps.step(batch_of(group.rank(), static_cast<int>(i), lengths[rank][i]));
        CHECK_EQ(steps.graphs.replayed() - replayed,
                 mode == StepGraphMode::automatic && replays[i] ? 1 : 0);
        // In a replay the hosts only agree on the turn, by sizes and bytes, and meet without NCCL.
        const bool meets = comm::is_in_kernel(group.algorithm({DeviceType::cuda, 0}));
        if (steps.graphs.replayed() > replayed)
          CHECK(group.stats().collectives - calls == (meets ? 3 : 2));
      }
      CHECK(steps.notes.empty());
      const std::vector<float> values = parameter_values(steps.loss);
      if (mode == StepGraphMode::off) eager[rank] = values;
      CHECK(values == eager[rank]);
    };
    launch_ranks(2, body, *options);
  }
}

TEST_CASE("gradients after a replay are sums, to which a later backward adds") {
  const auto options = captured_group();
  if (!options) return;
  std::vector<float> expected;
  for (const StepGraphMode mode : {StepGraphMode::off, StepGraphMode::automatic}) {
    const auto body = [&](const comm::Group& group) {
      RankSteps steps(group, mode);
      const models::PackedBatch batch = batch_of(group.rank(), 0, 0);
      for (int i = 0; i < 4; ++i) steps.step(batch);
      steps.graphs.run(batch, work_of(steps.loss));
      steps.optimizer.finish_step();
      steps.step(batch_of(group.rank(), 1, 1));  // runs eagerly: gradients exist
      CHECK(steps.graphs.replayed() == (mode == StepGraphMode::automatic ? 4 : 0));
      const std::vector<float> values = parameter_values(steps.loss);
      group.barrier();
      if (mode == StepGraphMode::off && group.rank() == 0) expected = values;
      group.barrier();
      CHECK(values == expected);
    };
    launch_ranks(2, body, *options);
  }
}

TEST_CASE("once a rank cannot capture, none does, and training goes on") {
  const auto options = captured_group();
  if (!options) return;
  const auto body = [](const comm::Group& group) {
    RankSteps steps(group);
    const auto reads = [&](const models::PackedBatch& on_device) {
      const Variable value = steps.loss(on_device);
      value.backward();
      if (group.rank() == 1) static_cast<void>(value.item());  // in a capture an error
      return value.tensor();
    };
    for (int i = 0; i < 4; ++i) steps.step(batch_of(group.rank(), i, 0), reads);
    CHECK(steps.graphs.replayed() == 0);
    CHECK(steps.graphs.captured() == (group.rank() == 0 ? 1 : 0));
    CHECK(steps.notes.size() == 1);
    if (group.rank() == 0)
      CHECK(steps.notes.at(0).starts_with("steps are not captured as graphs: rank 1: "));
  };
  launch_ranks(2, body, *options);
}

TEST_CASE("over nccl a rank that leaves its capture before a collective ends all ranks") {
  if (!has_nccl()) return;
  std::string reason;
  const auto body = [&](const comm::Group& group) {
    RankSteps steps(group);
    const auto fails = [&](const models::PackedBatch& on_device) {
      if (group.rank() == 1 && is_capturing()) fail("not in a capture");
      return work_of(steps.loss)(on_device);
    };
    try {
      for (int i = 0; i < 3; ++i) steps.step(batch_of(group.rank(), i, 0), fails);
    } catch (const Error& error) {
      if (group.rank() == 1) reason = error.what();
      CHECK(steps.notes.size() == static_cast<std::size_t>(group.rank()));
      throw;
    }
  };
  const std::string message = message_of([&] { launch_ranks(2, body, kNccl); });
  CHECK_MESSAGE(message.find(" called ") != message.npos, message);
  CHECK_MESSAGE(reason.ends_with("; rank 1 captures no steps: not in a capture"), reason);
}

TEST_CASE("a capture that fails within backward leaves ZeRO-1 as it was") {
  const auto options = captured_group();
  if (!options) return;
  const auto body = [](const comm::Group& group) {
    const Device device{DeviceType::cuda, group.rank()};
    models::SoftmaxLoss loss(encoder_on(device), 3);
    const ShardedDataParallel zero1(loss, group);
    AdamW optimizer(loss, GraphSteps::still());
    std::string note;
    StepGraphs graphs(loss, optimizer, device,
                      {.on_note = [&](const std::string& line) { note = line; }});
    const nn::Parameter parameter = loss.parameters().front();
    const auto work = [&](const models::PackedBatch& on_device) {
      // Recorded first: backward comes to it last, when other units are being reduced.
      const Variable first = autograd::record("first", parameter.tensor(), {parameter},
                                              [](const Tensor& grad, autograd::Gradients& grads) {
                                                RINGLET_CHECK(!is_capturing(), "not in a capture");
                                                grads[0].set(grad);
                                              });
      const Variable value = add(loss(on_device), scale(mean(first), 0.0));
      value.backward();
      return value.tensor();
    };
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) {
      losses.push_back(graphs.run(batch_of(group.rank(), 0, 0), work).item<double>());
      optimizer.finish_step();
      optimizer.zero_grad();
    }
    CHECK(graphs.captured() == 0);
    CHECK(note.find("not in a capture") != note.npos);
    CHECK(losses == std::vector(3, losses[0]));  // at a rate of 0
  };
  launch_ranks(2, body, *options);
}

TEST_CASE("ranks that cannot be captured say why") {
  const auto options = captured_group();
  if (!options) return;
  const auto note = [](const comm::GroupOptions& of_group, bool share,
                       const DistributedDataParallelOptions& of_ddp = {}) {
    std::string found;
    const auto body = [&](const comm::Group& group) {
      const Device device{DeviceType::cuda, share ? 0 : group.rank()};
      models::SoftmaxLoss loss(encoder_on(device), 3);
      const DistributedDataParallel ddp(loss, group, of_ddp);
      AdamW optimizer(loss, GraphSteps::still());
      StepGraphs graphs(loss, optimizer, device, {.on_note = [&](const std::string& line) {
                          if (group.rank() == 0) found = line;
                        }});
      for (int i = 0; i < 2; ++i) {
        graphs.run(batch_of(group.rank(), i, 0), work_of(loss));
        optimizer.finish_step();
        optimizer.zero_grad();
      }
      CHECK(graphs.captured() == 0);
    };
    launch_ranks(2, body, of_group);
    return found;
  };
  CHECK(note({.algorithm = comm::Algorithm::direct}, false) ==
        "steps are not captured as graphs: of several ranks only NCCL and algorithm "
        "in-kernel-direct are captured");
  CHECK(note({}, true) == note({.algorithm = comm::Algorithm::direct}, false));
  CHECK(note(*options, true) == "steps are not captured as graphs: ranks share a GPU");
  const auto hook = [](const comm::Group& group, const GradientBucket& bucket) {
    return std::function<void()>([work = group.all_reduce(bucket.gradients)] { work.wait(); });
  };
  CHECK(note(*options, false, {.communication_hook = hook}) ==
        "steps are not captured as graphs: a communication hook runs on the host");
}

namespace {

/// Calls `second` before the second replay.
struct BeforeSecond final : ReplayObserver {
  explicit BeforeSecond(std::function<void()> call) : second(std::move(call)) {}
  void begin_replay() override {
    if (++replays == 2) second();
  }
  void end_replay() override {}
  std::function<void()> second;
  int replays = 0;
};

/// The error that ends two ranks, of which rank 1 calls `second` before its second replay.
std::string end_of_ranks(const comm::GroupOptions& options,
                         const std::function<void(const comm::Group&)>& second) {
  const auto body = [&](const comm::Group& group) {
    RankSteps steps(group);
    const auto observed = [&](const models::PackedBatch& on_device) {
      if (group.rank() == 1 && is_capturing())
        observe_replays(std::make_shared<BeforeSecond>([&] { second(group); }));
      return work_of(steps.loss)(on_device);
    };
    for (int i = 0; i < 6; ++i) steps.step(batch_of(group.rank(), i, 0), observed);
  };
  return message_of([&] { launch_ranks(2, body, options); });
}

}  // namespace

TEST_CASE("a rank that fails in a replayed step ends all ranks with the cause") {
  const auto options = captured_group();
  if (!options) return;
  const auto start = std::chrono::steady_clock::now();
  const std::string error =
      end_of_ranks(*options, [](const comm::Group&) { fail("rank 1's own error"); });
  CHECK_MESSAGE(error.starts_with("rank 1: rank 1's own error"), error);  // rank 0 may add its wait
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("over nccl a step's replay waits for a rank until the group's timeout") {
  if (!has_nccl()) return;
  comm::GroupOptions options = kNccl;
  options.timeout = std::chrono::seconds(3);
  const std::string message = end_of_ranks(options, [](const comm::Group& group) {
    while (!group.store().raised()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  CHECK_MESSAGE(message.starts_with("[graph] replay 2, of [all_reduce] collective "), message);
  const std::string wait = "rank 0 waited 3 s for cuda:0 to end it; ranks present: 0; missing: 1";
  CHECK_MESSAGE(message.find(wait) != message.npos, message);
}
