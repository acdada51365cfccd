// Moving averages of the parameters, and reductions by a hook of DDP, under the strategies.
#include <doctest/doctest.h>

#include "../../files.h"
#include "every_strategy.h"
#include "ringlet/train/checkpoint/checkpoint.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

AdamWOptions averaged() {
  AdamWOptions options = tiny::adamw();
  options.ema_decay = 0.75;
  return options;
}

/// Trains with an average. Returns the module's bits under EmaScope; they are as before after it.
tiny::Bits train_averaged(tiny::Model& model, const comm::Group& group,
                          const std::filesystem::path& checkpoint) {
  AdamW optimizer(*model.loss, averaged());
  Loader<models::PackedBatch> loader(tiny::datasets(), model.encoder.tokenizer(),
                                     tiny::loader_options(group.rank(), group.size()));
  for (int step = 0; step < tiny::kSteps; ++step) {
    (*model.loss)(tiny::next(*model.loss, loader)).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  TrainerState state;
  state.step = tiny::kSteps;
  save_checkpoint(checkpoint, *model.loss, optimizer, state);
  const tiny::Bits trained = tiny::bits(*model.loss);
  tiny::Bits average;
  {
    const EmaScope scope(optimizer);
    average = tiny::bits(*model.loss);
  }
  CHECK(tiny::bits(*model.loss) == trained);
  CHECK(average != trained);
  return average;
}

}  // namespace

TEST_CASE("every strategy has the same average, which checkpoints keep") {
  const TemporaryFolder folder;
  const tiny::Bits trained = tiny::virtual_ranks(2);
  tiny::Bits expected;
  for (const auto& attach : tiny::each_strategy()) {
    const auto ranks = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const tiny::Attached attached = attach(*model.loss, group);
      const tiny::Bits average = train_averaged(model, group, folder / "checkpoint");
      if (expected.empty() && group.rank() == 0) expected = average;
      group.barrier();
      CHECK(average == expected);
    });
    for (const tiny::Bits& bits : ranks) CHECK(bits == trained);  // training does not see it

    tiny::Model again(7);
    AdamW optimizer(*again.loss, averaged());
    load_checkpoint(folder / "checkpoint", *again.loss, optimizer);
    CHECK(tiny::bits(*again.loss) == trained);
    optimizer.swap_ema();
    CHECK(tiny::bits(*again.loss) == expected);
  }
}

TEST_CASE("a hook that sums has the bits of DDP, whatever the buckets") {
  const tiny::Bits expected = tiny::virtual_ranks(2);
  for (const double mb : {1.0 / 1024, 1024.0}) {
    std::size_t buckets = 0;
    const CommunicationHook sums = [&](const comm::Group& group, const GradientBucket& bucket) {
      if (group.rank() == 0) buckets = std::max(buckets, bucket.index + 1);
      return [work = group.all_reduce(bucket.gradients)] { work.wait(); };
    };
    const auto ranks = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const DistributedDataParallel ddp(
          *model.loss, group,
          {.bucket_cap_mb = mb, .first_bucket_mb = mb, .communication_hook = sums});
      tiny::train_rank(model, tiny::loader_options(group.rank(), 2));
    });
    for (const tiny::Bits& bits : ranks) CHECK(bits == expected);
    CHECK((buckets > 1) == (mb < 1));
  }
}
