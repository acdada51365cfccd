// Rung 3: the same job by arguments: the Trainer has the loop.
#include <iostream>

#include "ringlet.h"
using namespace ringlet;

int main() try {
  const comm::Group world = comm::init_from_env();
  const Device device = Device::best();  // this rank's
  const train::Digits digits = train::make_digits(/*seed=*/1, /*split=*/0, /*count=*/1500);
  const train::Digits test = train::make_digits(1, 1, 500);
  const auto collate = [&](const train::Digits& from) {
    return
        [&from, device](const train::Rows& rows) { return collate_digits(from, rows).to(device); };
  };
  manual_seed(42);
  models::Convnet net;
  net.to(device);

  train::TrainingArguments arguments{
      .num_train_epochs = 1,
      .per_device_train_batch_size = 64 / static_cast<std::size_t>(world.size()),
      .learning_rate = 1e-3,
      .lr_scheduler_type = train::Decay::constant,
      .max_grad_norm = 0,
      .eval_strategy = train::EvalStrategy::epoch};
  if (world.size() > 1) arguments.strategy = train::Strategy::ddp;
  const auto loss = [&](const train::DigitBatch& batch) {
    return nn::nll_loss(net(Variable(batch.images), batch.positions), batch.labels);
  };
  train::Trainer trainer(net, digits.count, collate(digits), loss, arguments, world);
  trainer.add_evaluator(
      train::ExampleEvaluator(net, test.count, collate(test), [&](const train::DigitBatch& batch) {
        train::ClassificationMeter meter;
        meter.add(net(Variable(batch.images)).tensor(), batch.labels);
        return meter.metrics();
      }));
  const train::TrainingResult result = trainer.train();
  if (world.rank() == 0) std::cout << epoch_table(result);
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
