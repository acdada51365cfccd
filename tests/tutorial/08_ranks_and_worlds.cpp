// Lesson 8: ranks and worlds. A world is several workers that run one program, each with its rank.
#include <doctest/doctest.h>

#include <iomanip>

#include "in_rank_order.h"

using namespace ringlet;

TEST_CASE("08 ranks and worlds") {
  // Two nodes with four devices each: a world of eight. Here every rank is a thread; under `ringlet
  // run --nnodes 2 --nproc-per-node 4` it would be a process with RANK in its environment.
  const int nodes = 2, devices = 4;
  comm::launch(
      [&](const comm::Group& world) {
        const int node = world.rank() / devices, local_rank = world.rank() % devices;

        // Every rank contributes its number and gets the sum.
        Tensor number = tensor({static_cast<float>(world.rank())});
        world.all_reduce(number).wait();
        CHECK(number.item() == 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7);

        // The same devices of all nodes can form a sub-group; all ranks take part in creating all
        // of them.
        comm::Group across;
        for (int device = 0; device < devices; ++device) {
          const comm::Group group = world.subgroup({device, device + devices});
          if (device == local_rank) across = group;
        }
        Tensor pair = tensor({static_cast<float>(world.rank())});
        across.all_reduce(pair).wait();
        CHECK(pair.item() == static_cast<float>(2 * local_rank + devices));

        print_in_rank_order(world, str("rank ", world.rank(), " of ", world.size(), ": node ", node,
                                       ", local rank ", local_rank, ", sum of all ", number.item(),
                                       ", of its pair ", pair.item()));

        // A row for each node; a column is a pair.
        const std::vector<std::string> sums = world.all_gather_bytes(str(pair.item()));
        for (int i = 0; world.rank() == 0 && i < world.size() + devices; ++i) {
          const bool is_rank = i < world.size();
          if (i % devices == 0)
            std::cout << (is_rank ? str("\nnode ", i / devices, "       ") : "\nsum of a pair");
          std::cout << std::setw(4) << (is_rank ? str(i) : sums[i % devices]);
        }
        if (world.rank() == 0) std::cout << "\n";
      },
      nodes * devices);

  // A world of one is no special case: the same code runs without a launcher, at no cost.
  const comm::Group alone;
  Tensor x = tensor({3.0f});
  alone.all_reduce(x).wait();
  CHECK((alone.size() == 1 && x.item() == 3));
}
