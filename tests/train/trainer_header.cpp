#include <doctest/doctest.h>

#include "ringlet/comm/launch.h"
#include "ringlet/train/report/progress.h"
#include "ringlet/train/trainer.h"
#include "words.h"
#include "words_loss.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("the header has the figures of Hugging Face's") {
  const auto loss = words::loss(2);  // 9 x 8 + 16 x 2 + 2 parameters
  const Trainer trainer(*loss, {words::dataset(1004, 2), words::dataset(40, 2)}, words::tokenizer(),
                        {.num_train_epochs = 1.5,
                         .per_device_train_batch_size = 4,
                         .gradient_accumulation_steps = 2});
  CHECK(trainer.header() ==
        "***** Running training *****\n"
        "  Num examples = 1,044\n"
        "  Num Epochs = 2\n"
        "  Instantaneous batch size per device = 4\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 8\n"
        "  Gradient Accumulation steps = 2\n"
        "  Total optimization steps = 197\n"  // 126 + 5 of an epoch, and half as many
        "  Number of trainable parameters = 106\n");
}

TEST_CASE("the header counts the devices, and the parameters that are trained") {
  comm::launch(
      [](const comm::Group& group) {
        const auto loss = words::loss(2);
        loss->bias.set_requires_grad(false);
        const Trainer trainer(
            *loss, {words::dataset(24, 2)}, words::tokenizer(),
            {.max_steps = 7, .per_device_train_batch_size = 4, .strategy = Strategy::fsdp}, group);
        const std::string header = trainer.header();
        const auto has = [&](const char* line) {
          RINGLET_CHECK(header.find(line) != header.npos, line, " is not in ", header);
        };
        has("accumulation) = 8\n");
        has("Num Epochs = 3\n");  // of three steps each
        has("optimization steps = 7\n");
        has("trainable parameters = 104\n");
      },
      2, {.ranks = comm::Ranks::threads});
}
