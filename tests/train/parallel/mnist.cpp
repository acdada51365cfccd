// The MNIST convnet under bare DDP: a complete training loop over several ranks.
#include <doctest/doctest.h>

#include <atomic>
#include <numeric>

#include "../../extended.h"
#include "../../files.h"
#include "ringlet.h"

using namespace ringlet;

namespace {

double train_on(const comm::Group& world, const train::Digits& digits) {
  manual_seed(1);
  models::Convnet net;
  train::DistributedDataParallel ddp(net, world);
  train::AdamW optimizer(net, {.lr = 1e-3});
  const std::size_t batch = 64, share = batch / static_cast<std::size_t>(world.size());
  const train::Sampler sampler(is_extended() ? 9'000 : 4'500, {.seed = 1, .batch_size = batch});
  for (std::size_t epoch = 0; epoch < (is_extended() ? 2 : 1); ++epoch)
    for (std::size_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      const std::vector<std::size_t> rows = sampler.batch(epoch, step).rows;
      const std::size_t begin =
          std::min(rows.size(), static_cast<std::size_t>(world.rank()) * share);
      const std::size_t count = std::min(share, rows.size() - begin);
      const auto mine =
          train::collate_digits(digits, train::Rows(std::span(rows).subspan(begin, count), begin))
              .to(default_device());
      const Variable loss = autograd::cross_entropy(net(Variable(mine.images), mine.positions),
                                                    mine.labels, static_cast<double>(rows.size()));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  const autograd::NoGrad no_grad;
  net.eval();
  train::ClassificationMeter meter;
  for (std::size_t begin = 9'000; begin < 10'000; begin += 250) {
    std::vector<std::size_t> rows(250);
    std::iota(rows.begin(), rows.end(), begin);
    const auto test = train::collate_digits(digits, train::Rows(rows)).to(default_device());
    meter.add(net(Variable(test.images)).tensor(), test.labels);
  }
  return meter.accuracy();
}

}  // namespace

// Extended runs train on 9,000 digits twice: 97 %.
TEST_CASE("MNIST: two ranks under DDP learn 4,500 digits, 87 % of 1,000 others") {
  const auto folder = real_data("mnist");
  if (folder.empty()) return;
  const train::Digits digits = train::read_digits(folder / "t10k-images-idx3-ubyte.gz",
                                                  folder / "t10k-labels-idx1-ubyte.gz");
  std::atomic<double> accuracy[2];
  comm::launch([&](const comm::Group& world) { accuracy[world.rank()] = train_on(world, digits); },
               2);
  MESSAGE("found " << 100 * accuracy[0] << " % of 1,000 digits");
  CHECK(accuracy[0] >= (is_extended() ? 0.97 : 0.87));
  CHECK(accuracy[0] == accuracy[1]);  // the ranks have equal models
}
