// Rung 1: a loop of your own under DDP. It runs alone, and as ranks of `ringlet run`.
#include <iostream>

#include "ringlet.h"
using namespace ringlet;

int main() try {
  const comm::Group world = comm::init_from_env();
  const auto ranks = static_cast<std::size_t>(world.size());
  const Device device = Device::best();  // this rank's
  const train::Digits digits = train::make_digits(/*seed=*/1, /*split=*/0, /*count=*/1500);
  const train::Digits test = train::make_digits(1, 1, 500);
  const auto collate = [&](const train::Digits& from) {
    return
        [&from, device](const train::Rows& rows) { return collate_digits(from, rows).to(device); };
  };
  // A batch is 64 digits over all ranks; each rank makes its part.
  train::Loader loader(digits.count, collate(digits), {.batch_size = 64 / ranks, .seed = 42},
                       world);
  train::Loader test_loader(test.count, collate(test), {.batch_size = 64 / ranks, .shuffle = false},
                            world);
  manual_seed(42);
  models::Convnet net;
  net.to(device);
  train::DistributedDataParallel ddp(net, world);
  train::AdamW optimizer(net, {.lr = 1e-3});

  for (int epoch = 1; epoch <= 1; ++epoch) {
    net.train();
    for (const train::DigitBatch& batch : loader) {
      const Variable output = net(Variable(batch.images), batch.positions);
      loader.weigh(nn::nll_loss(output, batch.labels)).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    const autograd::NoGrad no_grad;
    net.eval();
    train::ClassificationMeter meter;
    for (const train::DigitBatch& batch : test_loader)
      if (test_loader.share().rows > 0)  // else it only fills this rank's batch
        meter.add(net(Variable(batch.images)).tensor(), batch.labels);
    meter.all_reduce(world);
    if (world.rank() == 0)
      std::cout << "epoch " << epoch << ": validation loss " << meter.loss() << ", accuracy "
                << meter.accuracy() << "\n";
  }
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
