// Lesson 21: one result. Neither the number of ranks nor the death of a rank changes a bit of it.
#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iostream>
#include <numeric>

#include "ringlet.h"

using namespace ringlet;
namespace {
constexpr int kLeaves = 8, kSteps = 12, kPixels = 28 * 28;
const std::vector<float> kGradients{1, 5, 5, 2, 5, -1e8f, 1e8f, 2};  // of logical ranks 0 to 7

// Each of n ranks adds its block from left to right; their sums are added in rank order.
float by_blocks(int n) {
  float sum = 0;
  for (const comm::Piece& block : comm::even_pieces(kLeaves, n)) {
    const auto first = kGradients.begin() + block.offset;
    sum += std::accumulate(first, first + block.count, 0.0f);
  }
  return sum;
}

// A node of the tree is the sum of two. The left one has the largest power of two that leaves some.
float by_tree(LeafRange node) {
  if (node.size() == 1) return kGradients[node.begin];
  int half = 1;
  while (2 * half < node.size()) half *= 2;
  return by_tree({node.begin, node.begin + half}) + by_tree({node.begin + half, node.end});
}

// Trains on n ranks, from the last checkpoint on. Rank 1 is killed after step `death`. Returns the
// SHA-256 of the last checkpoint's files: weights, moments, the state of the run.
std::string train_on(int n, const std::filesystem::path& folder, std::int64_t death = 0) {
  const auto checkpoints = std::filesystem::exists(folder) ? folder : "";
  std::cout << "steps on " << n << (n == 1 ? " rank: " : " ranks: ") << std::flush;
  const auto rank_main = [&](const comm::Group& world) {
    const DefaultDeviceGuard cpu(Device{});  // a forked process cannot use its parent's GPU
    manual_seed(21);
    const train::Digits digits = train::make_digits(1, 0, 400);
    nn::Linear net(kPixels, 10);
    train::Trainer trainer(
        net, digits.count, [&](const train::Rows& rows) { return collate_digits(digits, rows); },
        [&](const train::DigitBatch& batch) {
          return nn::cross_entropy(net(Variable(batch.images.view({-1, kPixels}))), batch.labels);
        },
        {.output_dir = folder,
         .max_steps = kSteps,
         .per_device_train_batch_size = 4,
         .logical_ranks = kLeaves,
         .strategy = train::Strategy::ddp,
         .save_steps = 4,
         .resume_from_checkpoint = checkpoints},
        world);
    trainer.add_callback({.on_step_end = [&](const train::StepReport& report) {
      if (world.rank() == 0) std::cout << report.step << " " << std::flush;
      if (world.rank() == 1 && report.step == death) std::raise(SIGKILL);
    }});
    trainer.train();
  };
  try {
    comm::launch(rank_main, n, {.ranks = comm::Ranks::processes});
  } catch (const Error& error) {
    std::cout << error.what();
  }
  std::ifstream sums(folder / str("checkpoint-", kSteps) / "SHA256SUMS");
  const std::string digests((std::istreambuf_iterator<char>(sums)), {});
  return std::cout << "  " << digests.substr(0, 16) << "\n", digests;
}
}  // namespace

TEST_CASE("21 one result") {
  std::cout << "ranks  by blocks  by the tree  each rank's nodes, as first and last leaf\n";
  for (const int n : {1, 2, 3, 4, 6, 8})
    comm::launch(
        [&](const comm::Group& world) {
          std::vector<Tensor> sums;
          std::string nodes;
          for (const LeafRange node : comm::nodes_of_rank(world.rank(), n, kLeaves)) {
            sums.push_back(tensor({by_tree(node)}));
            nodes += str(" ", node.begin, "-", node.end - 1);
          }
          world.all_reduce(comm::NodeSums{sums, kLeaves}).wait();  // the library's form
          CHECK(sums[0].item() == by_tree({0, kLeaves}));
          std::string row = str(n, "      ", by_blocks(n), "         ", sums[0].item(), "        ");
          for (const std::string& of_rank : world.all_gather_bytes(nodes)) row += of_rank + " |";
          if (world.rank() == 0) std::cout << row << "\n";
        },
        n);
  const auto folder = std::filesystem::temp_directory_path() / str("lesson-21-", getpid());
  const std::string undisturbed = train_on(1, folder / "undisturbed");
  CHECK(train_on(3, folder / "disturbed", /*death=*/6).empty());
  const std::string disturbed = train_on(2, folder / "disturbed");  // the ranks that are left
  CHECK((!disturbed.empty() && disturbed == undisturbed));
  std::filesystem::remove_all(folder);
}
