// The memory of a rank under FSDP, by its own allocator: from reading a folder to writing one.
#include <doctest/doctest.h>
#include <unistd.h>

#include "../../files.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/nn/lora.h"
#include "ringlet/train/parallel/fully_sharded.h"
#include "tiny.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr std::size_t kElement = sizeof(float);

/// Reads a folder, trains two steps of the same rows on every rank, and writes a folder.
void train_and_save(const TemporaryFolder& folder, DType compute, bool lora,
                    const std::function<std::shared_ptr<void>(models::Loss&)>& attach,
                    const std::function<void(models::Loss&)>& after) {
  const auto encoder = models::SentenceEncoder::from_pretrained(folder / "model");
  encoder.transformer()->set_compute_dtype(compute);
  if (lora) nn::add_lora(*encoder.transformer(), {.r = 4, .target_modules = {"attn.q", "attn.v"}});
  models::CosineSimilarityLoss loss(encoder);
  const std::shared_ptr<void> strategy = attach(loss);
  AdamW optimizer(loss, tiny::adamw());
  // A temporary loader: its thread takes memory for the next batch.
  models::PackedBatch batch =
      *Loader({tiny::datasets()[2]}, encoder.tokenizer(), {.batch_size = 2}).next();
  batch.ranks = 0;  // every rank has them
  for (int step = 0; step < 2; ++step) {
    loss(batch).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  encoder.save(folder / str("saved", getpid()));
  after(loss);
}

/// Elements of layer units, and of the other units.
struct Units {
  std::size_t all = 0, largest = 0, outside = 0, count = 0;
};

Units units_of(const nn::Module& module) {
  Units units;
  for (const nn::Unit& unit : module.arena()->units()) {
    const auto numel = static_cast<std::size_t>(unit.end - unit.begin);
    units.all += numel;
    ++units.count;
    if (unit.layer) {
      units.largest = std::max(units.largest, numel);
    } else {
      units.outside += numel;
    }
  }
  return units;
}

/// The most that activations take, and the arena's own, without any strategy: a process of its own
/// writes it to a file.
std::size_t activations(const TemporaryFolder& folder, DType compute, bool lora) {
  comm::launch(
      [&](const comm::Group&) {
        train_and_save(
            folder, compute, lora, [](models::Loss&) { return nullptr; },
            [&](const models::Loss& loss) {
              const MemoryStats stats = memory_stats({});
              const auto arena = static_cast<std::size_t>(loss.arena()->numel());
              write_file(folder / "activations", std::to_string(stats.peak - 16 * arena));
            });
      },
      1, {.ranks = comm::Ranks::processes});
  return std::stoull(read_file(folder / "activations"));
}

std::string figures(const MemoryStats& stats, std::size_t shard, std::size_t allowed) {
  return str("peak ", stats.peak, " of ", allowed, " bytes allowed, 16 x ", shard,
             " of them shards; ", stats.scratch, " of operands packed (beside)");
}

/// Runs on one rank, after training.
void check_rank(const TemporaryFolder& folder, const models::Loss& loss,
                std::size_t for_activations, const comm::Group& group) {
  const Units units = units_of(loss);
  const auto n = static_cast<std::size_t>(group.size());
  std::size_t shard = 0;
  for (const nn::LocalSlice& slice : loss.arena()->local_slices())
    shard += static_cast<std::size_t>(slice.end - slice.begin);
  // Pieces are multiples of the norm block.
  RINGLET_CHECK(shard <= units.all / n + units.count * static_cast<std::size_t>(kNormBlock),
                "a shard of ", shard, " of ", units.all);

  // Per unit a shard and two moments; gradients; three buffers of parameters, two of gradients.
  constexpr std::size_t kRounding = 64;  // the allocator's
  const std::size_t rounding = kRounding * (3 * units.count + 8);
  const std::size_t allowed = 16 * shard + 3 * kElement * units.largest +
                              2 * kElement * units.largest + 2 * kElement * units.outside +
                              for_activations + rounding;
  const MemoryStats stats = memory_stats({});
  const std::string said = figures(stats, shard, allowed);
  RINGLET_CHECK(stats.peak <= allowed, said);
  RINGLET_CHECK(stats.sidecars_peak == 0, stats.sidecars_peak, " bytes kept of parameters");
  RINGLET_CHECK(stats.scratch > 0, said);
  if (group.rank() == 0) write_file(folder / "figures", said);
}

void check_ranks(const TemporaryFolder& folder, DType computed, DType moved, bool lora) {
  const std::size_t for_activations = activations(folder, computed, lora);
  for (const int n : {1, 2, 4}) {
    CAPTURE(n);
    CHECK_NOTHROW(comm::launch(
        [&](const comm::Group& group) {
          train_and_save(
              folder, computed, lora,
              [&](models::Loss& loss) {
                return std::make_shared<FullySharded>(loss, group,
                                                      FullyShardedOptions{.param_dtype = moved});
              },
              [&](const models::Loss& loss) { check_rank(folder, loss, for_activations, group); });
        },
        n, {.ranks = comm::Ranks::processes}));
    MESSAGE(n, " ranks, computed in ", std::string(name(computed)), ", gathered as ",
            std::string(name(moved)), std::string(lora ? ", LoRA: " : ": "),
            read_file(folder / "figures"), "; activations ", for_activations);
  }
}

}  // namespace

TEST_CASE("FSDP keeps 16 bytes x parameters / n, three units, two gradients and what is outside") {
  const TemporaryFolder folder;
  models::SentenceEncoder(tiny::deep_config(), words::tokenizer()).save(folder / "model");
  using Dtypes = std::pair<DType, DType>;  // compute dtype, gather dtype
  for (const auto& [compute, gathered] :
       {Dtypes{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}})
    check_ranks(folder, compute, gathered, false);
}

TEST_CASE("FSDP keeps as many units whole where most of each is frozen, as LoRA leaves it") {
  const TemporaryFolder folder;
  models::SentenceEncoder(tiny::deep_config(), words::tokenizer()).save(folder / "model");
  check_ranks(folder, DType::f32, DType::f32, true);
}

TEST_SUITE_END();
