// One meaning of a batch: a loss that compares rows has the global batch's value and gradient. The
// batch may be divided over ranks, devices, accumulated batches and forwards.
#include <cmath>

#include "../../device.h"
#include "../../oracle.h"
#include "every_strategy.h"
#include "ringlet/ringlet.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr std::size_t kGlobalRows = 12;

/// Anchors, positives and negatives of 1 to 4 words.
std::shared_ptr<TextDataset> triplets(std::size_t rows) {
  auto data = std::make_shared<TextDataset>(
      "triplets", std::vector<std::string>{"anchor", "positive", "negative"}, Target::none);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string anchor = words::text(i), positive = words::text(i * 5 + 1),
                      negative = words::text(i * 7 + 3);
    data->add_row(std::vector<std::string_view>{anchor, positive, negative}, 0);
  }
  return data;
}

/// Equal weights and masks in every call.
struct Ranking {
  explicit Ranking(models::RankingOptions options = {})
      : guard({5, 0, 0}), encoder(tiny::config(), words::tokenizer()), loss(encoder, options) {
    default_generator() = {42, 0, 0};
  }
  GeneratorGuard guard;
  models::SentenceEncoder encoder;
  models::MultipleNegativesRankingLoss loss;
};

/// A division of the global batch.
struct Division {
  int ranks = 1;
  std::size_t forward_rows = 0;
  models::Negatives negatives = models::Negatives::global;
  models::RankingOptions options = {};
};

LoaderOptions loader_options(const Division& division, int rank, int world_size) {
  const auto rows = kGlobalRows / static_cast<std::size_t>(world_size);
  return {.batch_size = rows,
          .mini_batch_size = division.forward_rows,
          .seed = 7,
          .rank = static_cast<std::size_t>(rank),
          .world_size = static_cast<std::size_t>(world_size)};
}

/// The parameters after some steps of SGD with rate 1: after one step they differ by the gradient.
tiny::Bits train(Ranking& model, const LoaderOptions& options, int steps) {
  Sgd optimizer(model.loss, {.lr = 1});
  Loader loader({triplets(60)}, model.encoder.tokenizer(), options);
  for (int step = 0; step < steps; ++step) {
    model.loss(*loader.next()).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return tiny::bits(model.loss);
}

tiny::Bits on_devices(const Division& division, int steps) {
  Ranking model(division.options);
  model.loss.set_negatives(division.negatives);
  const SentenceDataParallel parallel(model.loss, tiny::devices(division.ranks));
  return train(model, loader_options(division, 0, 1), steps);
}

using Attach = std::function<tiny::Attached(nn::Module&, const comm::Group&)>;

tiny::Bits on_ranks(const Division& division, int steps, const Attach& attach) {
  std::vector<tiny::Bits> all(static_cast<std::size_t>(division.ranks));
  comm::launch(
      [&](const comm::Group& group) {
        Ranking model(division.options);
        model.loss.set_negatives(division.negatives);
        const auto attached = attach(model.loss, group);
        all[static_cast<std::size_t>(group.rank())] =
            train(model, loader_options(division, group.rank(), group.size()), steps);
      },
      division.ranks);
  for (const tiny::Bits& of_rank : all) CHECK(of_rank == all[0]);
  return all[0];
}

/// |a - b| / |b - the initial parameters|: the relative error of a gradient after one step.
double gradient_error(const tiny::Bits& a, const tiny::Bits& b) {
  const Ranking model;
  const tiny::Bits start = tiny::bits(model.loss);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = std::bit_cast<float>(a[i]), y = std::bit_cast<float>(b[i]),
                 before = std::bit_cast<float>(start[i]);
    error += (x - y) * (x - y);
    norm += (y - before) * (y - before);
  }
  return std::sqrt(error / norm);
}

/// A cosine of H products, between norms of H squares, has 2 H roundings; the loss multiplies its
/// error by the scale.
const double kBound = 20 * 2 * static_cast<double>(tiny::config().hidden_size) * kF32;

}  // namespace

TEST_CASE("the gradient of a ranking loss is the global batch's, on any number of ranks") {
  const tiny::Bits whole = on_devices({}, 1);
  for (const bool symmetric : {false, true}) {
    const Division alone{.options = {.symmetric = symmetric}};
    const tiny::Bits expected = on_devices(alone, 1);
    CHECK((expected == whole) == !symmetric);
    for (const int ranks : {1, 2, 3, 4}) {
      for (const std::size_t forward_rows : {0, 1, 2, 5}) {
        Division division = alone;
        division.ranks = ranks;
        division.forward_rows = forward_rows;
        CAPTURE(symmetric);
        CAPTURE(ranks);
        CAPTURE(forward_rows);
        CHECK(gradient_error(on_devices(division, 1), expected) < kBound);
      }
    }
  }
}

TEST_CASE("every strategy has the same bits with negatives of all ranks") {
  for (const int ranks : {2, 3, 4}) {
    for (const std::size_t forward_rows : {0, 2}) {
      const Division division{.ranks = ranks, .forward_rows = forward_rows};
      const tiny::Bits expected = on_devices(division, 3);
      for (const Attach& attach : tiny::each_strategy()) {
        CAPTURE(ranks);
        CAPTURE(forward_rows);
        CHECK(on_ranks(division, 3, attach) == expected);
      }
    }
  }
}

TEST_CASE("local negatives are another loss, alike under every strategy") {
  const Division local{.ranks = 2, .negatives = models::Negatives::local};
  const tiny::Bits expected = on_devices(local, 1);
  CHECK(gradient_error(expected, on_devices({}, 1)) > 0.1);
  for (const Attach& attach : tiny::each_strategy()) CHECK(on_ranks(local, 1, attach) == expected);
}

TEST_CASE("accumulated batches are one batch of a ranking loss") {
  const auto trained = [](std::size_t accumulation, std::size_t mini_batch_size) {
    Ranking model;
    const TrainingArguments arguments{.max_steps = 1,
                                      .per_device_train_batch_size = kGlobalRows / accumulation,
                                      .gradient_accumulation_steps = accumulation,
                                      .mini_batch_size = mini_batch_size,
                                      .learning_rate = 1,
                                      .lr_scheduler_type = Decay::constant,
                                      .max_grad_norm = 0,
                                      .seed = 7};
    const TrainingResult result =
        Trainer(model.loss, {triplets(60)}, model.encoder.tokenizer(), arguments).train();
    CHECK(result.rows == kGlobalRows);
    return result.loss;
  };
  const double whole = trained(1, 0);
  for (const std::size_t accumulation : {2, 3, 12})
    for (const std::size_t mini_batch_size : {0, 1, 5})
      CHECK(trained(accumulation, mini_batch_size) == doctest::Approx(whole).epsilon(kBound));
}

TEST_CASE("a batch beside an empty rank keeps its value") {
  const Ranking model;
  Loader loader({triplets(60)}, model.encoder.tokenizer(), loader_options({}, 0, 1));
  const models::PackedBatch whole = *loader.next(), none = whole.select({});
  Ranking alone;
  const double expected = alone.loss(whole).item();
  std::vector<double> values(3);
  comm::launch(
      [&](const comm::Group& group) {
        Ranking of_rank;
        const DistributedDataParallel ddp(of_rank.loss, group);
        models::PackedBatch mine = group.rank() == 1 ? whole : none;
        mine.ranks = 3;
        const Variable value = of_rank.loss(mine);
        value.backward();
        values[static_cast<std::size_t>(group.rank())] = value.item();
      },
      3);
  CHECK(values == std::vector<double>{0, expected, 0});
}

TEST_CASE_FIXTURE(OnCpu,
                  "a device that fails in a ranking loss ends the others, and the loss goes on") {
  Ranking model;
  const SentenceDataParallel parallel(model.loss, tiny::devices(2));
  Loader loader({triplets(60)}, model.encoder.tokenizer(), loader_options({}, 0, 1));
  const models::PackedBatch good = *loader.next();
  models::PackedBatch bad = good;
  bad.token_ids = good.token_ids.clone();
  bad.token_ids[0].fill_(1000);  // beyond the vocabulary, of the first row and so of one device
  CHECK_THROWS_WITH_AS(model.loss(bad), doctest::Contains("1000"), Error);
  CHECK(std::isfinite(model.loss(good).item()));
}

namespace {

/// The difference of a ranking loss over two devices that fails on the second one in backward,
/// before the gradients of the gathered rows.
struct FailsInBackward : models::EmbeddingLoss {
  explicit FailsInBackward(models::SentenceEncoder encoder)
      : EmbeddingLoss(std::move(encoder), {.kind = "FailsInBackward", .compares_rows = true},
                      fail) {}

  static Variable fail(const Variable& embeddings, const models::PackedBatch& batch,
                       const EmbeddingLoss& loss) {
    const Variable value = autograd::sum(loss.global_rows(batch).gather(embeddings, batch.columns));
    return autograd::record(
        "fails", value.tensor(), {value},
        [device = value.device()](const Tensor& grad, autograd::Gradients& grads) {
          RINGLET_CHECK(device.index == 0, "no gradient here");
          grads[0].set(grad);
        });
  }
};

/// The peak of memory above what the model and the batch take, of a step.
std::size_t peak_of(std::size_t rows, std::size_t forward_rows) {
  Ranking model;
  // A temporary loader: its thread takes memory for the next batch.
  const models::PackedBatch batch =
      *Loader({triplets(rows)}, model.encoder.tokenizer(),
              {.batch_size = rows, .mini_batch_size = forward_rows, .seed = 7})
           .next();
  model.loss(batch).backward();  // the gradients' memory
  model.loss.zero_grad();
  const std::size_t before = memory_stats({}).allocated;
  reset_peak_memory({});
  model.loss(batch).backward();
  return memory_stats({}).peak - before;
}

}  // namespace

TEST_CASE_FIXTURE(OnCpu, "a device that fails in backward ends the others, and names the cause") {
  Ranking model;
  FailsInBackward loss(model.encoder);
  const SentenceDataParallel parallel(loss, tiny::devices(2));
  Loader loader({triplets(60)}, model.encoder.tokenizer(), loader_options({}, 0, 1));
  const models::PackedBatch batch = *loader.next();
  const Variable value = loss(batch);
  CHECK_THROWS_WITH_AS(value.backward(), doctest::Contains("no gradient here"), Error);
  CHECK(std::isfinite(loss(batch).item()));
}

TEST_CASE_FIXTURE(OnCpu, "an inner loss of a divided one is refused where it needs all devices") {
  Ranking model;
  const auto ranking = std::make_shared<models::MultipleNegativesRankingLoss>(model.encoder);
  models::MultiLoss outer(model.encoder.modules(), {ranking});
  const SentenceDataParallel parallel(outer, tiny::devices(2));
  Loader loader({triplets(60)}, model.encoder.tokenizer(), loader_options({}, 0, 1));
  const models::PackedBatch batch = *loader.next();
  CHECK_THROWS_WITH_AS((*ranking)(batch), doctest::Contains("call the outer one"), Error);
  CHECK(std::isfinite(outer(batch).item()));
}

TEST_CASE_FIXTURE(OnCpu, "a batch of any size takes the memory of one piece and its embeddings") {
  constexpr std::size_t kBatch = 512, kPiece = 8, kColumns = 3;
  const std::size_t width = static_cast<std::size_t>(tiny::config().hidden_size);
  // Values and gradients of the embeddings, normalised and not, and of a block of logits.
  const std::size_t embeddings = 4 * sizeof(float) * kBatch * kColumns * width;
  const std::size_t logits = 3 * sizeof(float) * kBatch * (kColumns - 1) * kBatch;
  const std::size_t whole = peak_of(kBatch, 0), cached = peak_of(kBatch, kPiece);
  MESSAGE("whole " << whole << ", in pieces " << cached << ", a piece " << peak_of(kPiece, 0)
                   << ", embeddings " << embeddings << ", logits " << logits);
  CHECK(cached < peak_of(kPiece, 0) + embeddings + logits);
  CHECK(cached < whole / 2);
}
