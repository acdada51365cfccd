// The small convolutional network on the real MNIST digits. RINGLET_CURVES=FOLDER keeps its curve.
#include <doctest/doctest.h>

#include <cstdlib>
#include <numeric>

#include "../extended.h"
#include "../files.h"
#include "ringlet/core/io/file.h"
#include "ringlet/ringlet.h"
#include "ringlet/train/report/plot.h"

using namespace ringlet;
using namespace ringlet::train;

// Extended runs train on 9,000 digits twice, the fourfold: 97 %.
TEST_CASE("MNIST: 4,500 digits teach the network 87 % of 1,000 others") {
  const auto folder = real_data("mnist");
  if (folder.empty()) return;
  const Digits digits =
      read_digits(folder / "t10k-images-idx3-ubyte.gz", folder / "t10k-labels-idx1-ubyte.gz");
  REQUIRE(digits.count == 10'000);
  const std::size_t count = is_extended() ? 9'000 : 4'500;
  const std::size_t epochs = is_extended() ? 2 : 1;
  const GeneratorGuard random({.seed = 1});
  models::Convnet net;
  const auto accuracy = [&] {
    const autograd::NoGrad no_grad;
    net.eval();
    ClassificationMeter meter;
    for (std::size_t begin = 9'000; begin < 10'000; begin += 250) {
      std::vector<std::size_t> rows(250);
      std::iota(rows.begin(), rows.end(), begin);
      const DigitBatch batch =
          collate_digits(digits, std::span<const std::size_t>(rows)).to(default_device());
      meter.add(net(Variable(batch.images)).tensor(), batch.labels);
    }
    net.train();
    return meter.accuracy();
  };

  Trainer trainer(
      net, count, [&](const Rows& rows) { return collate_digits(digits, rows); },
      [&](const DigitBatch& drawn) {
        const DigitBatch batch = drawn.to(default_device());
        return nn::nll_loss(net(Variable(batch.images), batch.positions), batch.labels);
      },
      {.num_train_epochs = static_cast<double>(epochs),
       .per_device_train_batch_size = 64,
       .learning_rate = 1e-3,
       .lr_scheduler_type = Decay::constant});
  Series losses{"", {}, {}, /*faint=*/true};
  trainer.add_callback({.on_step_end = [&](const StepReport& step) {
    losses.x.push_back(static_cast<double>(step.step));
    losses.y.push_back(step.result.loss);
  }});
  // The number of epochs was fixed in advance, and the reported digits are used only once, at the
  // end: no choice depends on them.
  CHECK_EQ(trainer.train().epochs.size(), epochs);
  const double found = accuracy();
  MESSAGE("after " << epochs << " epochs: " << 100 * found << " % of 1,000 digits");
  CHECK(found >= (is_extended() ? 0.97 : 0.87));
  // Writes docs/curves/mnist.svg on request.
  if (const char* curves = std::getenv("RINGLET_CURVES")) {
    Series mean = moving_average(losses, 20);
    mean.name = "loss";
    write_file(std::filesystem::path(curves) / "mnist.svg",
               draw_lines({"MNIST, 9,000 digits", "step", "loss", {losses, mean}, {}}));
  }
}
