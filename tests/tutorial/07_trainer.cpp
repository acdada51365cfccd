// Lesson 7: the Trainer runs the loop: a collate function, a loss hook and the arguments. The small
// convolutional network learns digits that the project draws itself.
#include <doctest/doctest.h>

#include <iostream>

#include "ringlet.h"

using namespace ringlet;

TEST_CASE("07 trainer") {
  manual_seed(5);
  const train::Digits digits = train::make_digits(/*seed=*/1, /*split=*/0, /*count=*/1000);
  const train::Digits test = train::make_digits(1, 1, 300);
  models::Convnet net;
  const Device device = default_device();  // the network's device: a GPU with --device cuda

  train::Trainer trainer(
      net, digits.count,
      [&](const train::Rows& rows) { return collate_digits(digits, rows).to(device); },
      [&](const train::DigitBatch& batch) {
        // -log of the label's probability; positions seed the dropout
        return nn::nll_loss(net(Variable(batch.images), batch.positions), batch.labels);
      },
      {.num_train_epochs = 3,
       .per_device_train_batch_size = 50,
       .learning_rate = 1e-3,
       .lr_scheduler_type = train::Decay::constant,
       .eval_strategy = train::EvalStrategy::epoch});

  trainer.add_evaluator([&](const train::EvaluationPoint&) {
    const autograd::NoGrad no_grad;
    net.eval();
    std::vector<std::size_t> all(test.count);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const train::DigitBatch batch = collate_digits(test, train::Rows(all)).to(device);
    train::ClassificationMeter meter;
    meter.add(net(Variable(batch.images)).tensor(), batch.labels);
    net.train();
    return train::Metrics{{"accuracy", meter.accuracy()}, {"loss", meter.loss()}};
  });

  const train::TrainingResult result = trainer.train();
  std::cout << "epoch  training loss  validation loss  accuracy\n";
  for (const auto& epoch : result.epochs)
    std::cout << epoch.epoch << "      " << epoch.loss << "       "
              << *train::find_metric(epoch.metrics, "loss") << "        "
              << *train::find_metric(epoch.metrics, "accuracy") << "\n";
  CHECK(*train::find_metric(result.epochs.back().metrics, "accuracy") > 0.84);  // by class means

  // A digit that it never saw, every second row of pixels, and its guess.
  for (std::size_t i = 0; i < test.height * test.width; ++i) {
    const std::size_t row = i / test.width;
    if (row % 2 == 0) std::cout << " .:+#"[test.pixels[i] / 52];
    if (row % 2 == 0 && (i + 1) % test.width == 0) std::cout << "\n";
  }
  net.eval();
  const std::size_t first[] = {0};
  const train::DigitBatch batch = collate_digits(test, train::Rows(first)).to(device);
  const Tensor guess = argmax(net(Variable(batch.images)).tensor(), -1);
  std::cout << "guess: " << guess.item<int>() << ", label: " << +test.labels[0] << "\n";
}
