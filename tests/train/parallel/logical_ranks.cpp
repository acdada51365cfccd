// One result on any number of ranks: the bits of a run depend on its logical ranks alone.
#include <doctest/doctest.h>

#include <set>

#include "../../extended.h"
#include "every_strategy.h"

using namespace ringlet;

namespace {

constexpr std::size_t kLogical = 8;

/// Classes, a ranking of the global batch, and scores; their last batches are not whole.
struct Ranked : tiny::Model {
  Ranked() : tiny::Model() {
    loss = std::make_shared<models::MultiLoss>(
        encoder.modules(), std::vector<std::shared_ptr<models::Loss>>{
                               std::make_shared<models::SoftmaxLoss>(encoder, 3),
                               std::make_shared<models::MultipleNegativesRankingLoss>(encoder),
                               std::make_shared<models::CoSENTLoss>(encoder)});
    default_generator() = {42, 0, 0};
  }
};

struct Job {
  std::size_t accumulation = 1;
  std::size_t logical = kLogical;
  DType dtype = DType::f32;
  bool equal_batches = false;
  int updates = 1;  // of the same batches
};

train::LoaderOptions logical_options(const Job& job, const comm::Group& group) {
  const std::size_t dealt = job.logical > 0 ? job.logical : static_cast<std::size_t>(group.size());
  train::LoaderOptions options = tiny::loader_options(group.rank(), group.size(), job.accumulation);
  options.batch_size = 2 * kLogical / dealt / job.accumulation;
  options.logical_ranks = job.logical;
  options.equal_batches = job.equal_batches;
  for (std::size_t dataset = 0; dataset < 3; ++dataset) options.whole_steps.push_back(dataset > 0);
  return options;
}

/// The bits of the parameters after some steps.
tiny::Bits train_logical(Ranked& model, const comm::Group& group, const Job& job) {
  const train::LoaderOptions options = logical_options(job, group);
  train::Loader<models::PackedBatch> loader(
      {words::dataset(23, 3), words::dataset(19), words::scored_dataset(17)},
      model.encoder.tokenizer(), options);
  train::AdamW optimizer(*model.loss, tiny::adamw());
  for (int step = 0; step < 6; ++step) {
    std::vector<std::pair<models::PackedBatch, train::BatchShare>> batches;
    do {
      const models::PackedBatch* next = loader.next();
      batches.emplace_back(next ? *next : *loader.next(), loader.share());
    } while (!loader.share().ends_step);
    for (int update = 0; update < job.updates; ++update) {
      for (const auto& [batch, share] : batches) {
        std::optional<train::NoSync> no_sync;
        if (!share.ends_step) no_sync.emplace(*model.loss);
        share.weigh((*model.loss)(batch)).backward();
        if (share.ends_rank && !share.ends_step) train::end_logical_rank(*model.loss, share.counts);
      }
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  return tiny::bits(*model.loss);
}

using Attach = std::function<tiny::Attached(nn::Module&, const comm::Group&)>;

std::vector<std::pair<std::string, Attach>> logical_strategies(int logical) {
  using namespace train;
  constexpr double kKiB = 1.0 / 1024;
  return {{"ddp", tiny::attach<DistributedDataParallel>({.logical_ranks = logical})},
          {"ddp, small buckets",
           tiny::attach<DistributedDataParallel>(
               {.bucket_cap_mb = kKiB, .first_bucket_mb = kKiB, .logical_ranks = logical})},
          {"zero1", tiny::attach<ShardedDataParallel>({.stage = 1, .logical_ranks = logical})},
          {"zero2", tiny::attach<ShardedDataParallel>({.stage = 2, .logical_ranks = logical})},
          {"fsdp", tiny::attach<FullySharded>({.logical_ranks = logical})}};
}

tiny::Bits bits_on(int n, const Attach& attach, const Job& job) {
  tiny::Bits bits;
  comm::launch(
      [&](const comm::Group& group) {
        Ranked model;
        model.encoder.transformer()->set_compute_dtype(job.dtype);
        const auto attached = attach(*model.loss, group);
        const tiny::Bits mine = train_logical(model, group, job);
        if (group.rank() == 0) bits = mine;
      },
      n, {.ranks = comm::Ranks::threads});
  return bits;
}

void compare_with_ranks(Job job) {
  const bool equal_batches = job.equal_batches;
  Job usual = job;
  usual.logical = 0;
  const tiny::Bits expected = bits_on(kLogical, logical_strategies(0).front().second, usual);
  for (const auto& strategy : logical_strategies(kLogical)) {
    const std::string name = strategy.first;
    for (const int n : grid({1, 2, 3}, {4, 6, 8})) {
      job.equal_batches = equal_batches || name == "fsdp";
      CAPTURE(name);
      CAPTURE(n);
      CHECK((bits_on(n, strategy.second, job) == expected));
    }
  }
}

}  // namespace

TEST_CASE("8 logical ranks on any number of ranks have the bits of 8 ranks") {
  compare_with_ranks({});
  compare_with_ranks({.accumulation = 2, .equal_batches = true});
}

TEST_CASE("so do several updates with the same batches, as their rows are compared anew") {
  compare_with_ranks({.updates = 2});
}

TEST_CASE("so they do computed in bf16" * doctest::skip(!is_extended())) {
  compare_with_ranks({.dtype = DType::bf16});
}

namespace {

/// Three batches, a logical rank each. The batches in `labelled` have a classifier's loss; the
/// others do not reach it. Without a strategy sequential backwards: their sum is (0 + 1) + 2.
tiny::Bits bits_of_branches(const std::set<int>& labelled, const Attach& attach,
                            const comm::Group& group) {
  constexpr int kLeaves = 3;
  tiny::Model model;
  model.loss = std::make_shared<models::MultiLoss>(
      model.encoder.modules(), std::vector<std::shared_ptr<models::Loss>>{
                                   std::make_shared<models::SoftmaxLoss>(model.encoder, 3),
                                   std::make_shared<models::CosineSimilarityLoss>(model.encoder)});
  model.loss->eval();
  tiny::Attached attached;
  if (attach) attached = attach(*model.loss, group);
  train::AdamW optimizer(*model.loss, tiny::adamw());
  const LeafRange mine = leaves_of_rank(group.rank(), group.size(), kLeaves);
  for (int leaf = mine.begin; leaf < mine.end; ++leaf) {
    std::optional<train::NoSync> no_sync;
    if (attach && leaf + 1 < mine.end) no_sync.emplace(*model.loss);
    const auto rows = static_cast<std::size_t>(6 + leaf);
    const bool labels = labelled.contains(leaf);
    train::Loader<models::PackedBatch> loader(
        {labels ? words::dataset(rows, 3) : words::scored_dataset(rows)}, model.encoder.tokenizer(),
        {.batch_size = rows});
    models::PackedBatch batch = *loader.next();
    batch.ranks = attach ? kLeaves : 1;
    batch.dataset = labels ? 0 : 1;
    (*model.loss)(batch).backward();
    if (no_sync) train::end_logical_rank(*model.loss, true);
  }
  optimizer.step();
  return tiny::bits(*model.loss);
}

}  // namespace

TEST_CASE("a parameter that some logical ranks do not reach has their gradients as zeros") {
  for (const std::set<int>& labelled : {std::set{1}, {2}, {0, 1}, {0, 2}}) {
    const tiny::Bits expected = bits_of_branches(labelled, {}, {});
    for (const auto& strategy : logical_strategies(3)) {
      CAPTURE(strategy.first);
      CAPTURE(*labelled.rbegin());
      CHECK((bits_of_branches(labelled, strategy.second, {}) == expected));
      // All ranks reach the same ones in a step; under fsdp in each of their forwards.
      if (labelled.size() == 1 || strategy.first == "fsdp") continue;
      comm::launch(
          [&](const comm::Group& group) {
            const tiny::Bits bits = bits_of_branches(labelled, strategy.second, group);
            RINGLET_CHECK(bits == expected, "rank ", group.rank(), " has other bits");
          },
          2, {.ranks = comm::Ranks::threads});
    }
  }
}
