// Rung 2: the same loop, prepared for one device or many under the strategy of RINGLET_STRATEGY.
#include <iostream>

#include "ringlet.h"
using namespace ringlet;

int main() try {
  train::Accelerator accelerator({.split_batches = true});
  const Device device = accelerator.device();
  const train::Digits digits = train::make_digits(/*seed=*/1, /*split=*/0, /*count=*/1500);
  const train::Digits test = train::make_digits(1, 1, 500);
  const auto collate = [&](const train::Digits& from) {
    return
        [&from, device](const train::Rows& rows) { return collate_digits(from, rows).to(device); };
  };
  train::Loader loader(digits.count, collate(digits), {.batch_size = 64, .seed = 42});
  train::Loader test_loader(test.count, collate(test), {.batch_size = 64, .shuffle = false});
  manual_seed(42);
  models::Convnet net;
  net.to(device);
  train::AdamW optimizer(net, {.lr = 1e-3});
  accelerator.prepare(net, optimizer, loader, test_loader);

  for (int epoch = 1; epoch <= 1; ++epoch) {
    net.train();
    for (const train::DigitBatch& batch : loader) {
      const Variable output = net(Variable(batch.images), batch.positions);
      accelerator.backward(nn::nll_loss(output, batch.labels));
      optimizer.step();
      optimizer.zero_grad();
    }
    const autograd::NoGrad no_grad;
    net.eval();
    train::ClassificationMeter meter;
    for (const train::DigitBatch& batch : test_loader) {
      const Tensor output = accelerator.gather_for_metrics(net(Variable(batch.images)).tensor());
      meter.add(output, accelerator.gather_for_metrics(batch.labels));
    }
    accelerator.print("epoch ", epoch, ": validation loss ", meter.loss(), ", accuracy ",
                      meter.accuracy());
  }
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
