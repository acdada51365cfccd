#include <doctest/doctest.h>
#include <cmath>

#include "../../files.h"
#include "../words.h"
#include "../words_loss.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/evaluators/classification.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("accuracy and loss count every row once, whatever the batches") {
  ClassificationMeter meter;
  meter.add(tensor(std::vector<float>{2, 0, 0, 2}, {2, 2}),
            tensor({std::int64_t{0}, std::int64_t{0}}));
  meter.add(tensor(std::vector<float>{0, 0}, {1, 2}), tensor({std::int64_t{0}}));
  meter.add(zeros({0, 2}), zeros({0}, DType::i64));
  CHECK(meter.rows() == 3);
  CHECK(meter.accuracy() == doctest::Approx(2.0 / 3).epsilon(1e-15));  // the first of equals
  const double right = std::log(1 + std::exp(-2)), wrong = std::log(1 + std::exp(2));
  CHECK(meter.loss() == doctest::Approx((right + wrong + std::log(2)) / 3).epsilon(1e-6));
}

TEST_CASE("nothing counted, no figures") {
  CHECK(std::isnan(ClassificationMeter().accuracy()));
  ClassificationMeter meter;
  CHECK_THROWS_AS(meter.add(zeros({2, 3}), zeros({1}, DType::i64)), Error);
}

namespace {

models::SentenceEncoder words_encoder() {
  return {words::encoder_config(models::Architecture::bert), words::tokenizer()};
}

}  // namespace

TEST_CASE("accuracy is counted over all rows, without dropout, and leaves the mode as it was") {
  const auto loss = words::loss(3);
  const auto data = words::dataset(11, 3);
  const models::SentenceEncoder model = words_encoder();
  const LabelAccuracyEvaluator evaluator(data, loss, {.name = "dev", .batch_size = 4});
  const Metrics first = evaluator.evaluate(model);
  CHECK(loss->training());
  REQUIRE(first.size() == 1);
  CHECK(first[0].first == "dev_accuracy");
  CHECK(first[0].second * 11 == doctest::Approx(std::round(first[0].second * 11)).epsilon(1e-12));
  default_generator().next_step();  // would change dropout masks
  CHECK(evaluator.evaluate(model) == first);
  const LabelAccuracyEvaluator whole(data, loss, {.name = "dev", .batch_size = 100});
  CHECK(whole.evaluate(model) == first);

  // A head that always answers class 1 is correct for label 1: rows 1, 4, 7, 10.
  Tensor(loss->weight.tensor()).zero_();
  Tensor(loss->bias.tensor()).copy_(tensor({0.f, 9.f, 0.f}));
  TemporaryFolder folder;
  const EvaluationPoint at{.step = 3, .epoch = 1, .output = folder.path()};
  CHECK(evaluator.evaluate(model, at)[0].second == 4.0 / 11);
  CHECK(read_file(folder / "accuracy_evaluation_dev_results.csv") ==
        "epoch,steps,accuracy\r\n1,3,0.36363636363636365\r\n");
}

TEST_CASE("rows without a label, and labels without a class, are refused") {
  const auto loss = words::loss(2);
  CHECK_THROWS_WITH_AS(LabelAccuracyEvaluator(words::scored_dataset(3), loss, {}),
                       "scores: expected rows with a label", InputError);
  const LabelAccuracyEvaluator evaluator(words::dataset(6, 3), loss, {});
  CHECK_THROWS_WITH_AS(evaluator.evaluate(words_encoder()),
                       "words: expected labels below 2, found 2", InputError);
}
