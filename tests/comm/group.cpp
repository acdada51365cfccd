#include "ringlet/comm/group.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <latch>
#include <mutex>
#include <thread>

#include "ringlet/comm/environment.h"
#include "ringlet/core/ops/elementwise.h"
#include "settings.h"

using namespace ringlet;
using namespace ringlet::comm;

namespace {

/// The settings with a separate all-reduce for the device that tensors are made on.
std::vector<Setting> all_reduce_settings() {
  std::vector<Setting> all = settings();
  if (default_device().type == DeviceType::cpu) return all;
  for (const Setting& setting : settings({Algorithm::in_kernel_direct, Algorithm::in_kernel_ring}))
    if (setting.transport == TransportKind::thread) all.push_back(setting);
  return all;
}

std::vector<std::int64_t> lengths(int n) { return {0, 1, n - 1, n, n + 1, 63, 257, 1000}; }

double max_over_ranks(int ranks, std::int64_t i) {
  int max = 0;
  for (int rank = 0; rank < ranks; ++rank) max = std::max(max, element(rank, i));
  return max;
}

/// Half the distance between neighbours at 1.
double unit_of(DType dtype) {
  if (dtype == DType::bf16) return 0x1p-8;
  if (dtype == DType::f16) return 0x1p-11;
  return dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
}

/// The sums are exact. Rounded once each: 1 / n, the product and, if it is narrower, the element.
void expect_average(const Tensor& actual, int ranks, std::int64_t offset, const std::string& what) {
  const double compute = std::min(unit_of(actual.dtype()), 0x1p-24);
  const double bound = 2 * compute + unit_of(actual.dtype());
  const std::vector<double> values = actual.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = sum_over_ranks(ranks, offset + static_cast<std::int64_t>(i)) / ranks;
    RINGLET_CHECK(std::abs(values[i] - exact) <= 1.01 * bound * exact, what, ": element ", i,
                  " is ", values[i], ", expected ", exact);
  }
}

}  // namespace

TEST_CASE("all_reduce: every dtype, any length, unaligned") {
  for (const Setting& setting : all_reduce_settings())
    with_ranks(setting, [](const Group& group) {
      const int n = group.size();
      for (const DType dtype : kDTypes)
        for (const std::int64_t count : lengths(n)) {
          const std::string what = str("all_reduce of ", count, " ", dtype);
          Tensor sum = numbered(group.rank(), count, dtype);
          Tensor max = sum.clone();
          const Work works[] = {group.all_reduce(sum), group.all_reduce(max, ReduceOp::max)};
          for (const Work& work : works) work.wait();
          expect(
              sum, 0, count, [&](std::int64_t i) { return sum_over_ranks(n, i); }, what);
          expect(
              max, 0, count, [&](std::int64_t i) { return max_over_ranks(n, i); }, what + " max");
          if (!is_floating(dtype)) continue;
          const Tensor average = numbered(group.rank(), count, dtype);
          group.all_reduce(average, ReduceOp::mean).wait();
          expect_average(average, n, 0, what + " avg");
        }
    });
}

// A single 1 added to a sum of 16 bits vanishes; several together do not.
TEST_CASE("sums of bf16 and f16 are rounded once, whatever their way") {
  for (const Setting& setting : all_reduce_settings()) {
    if (setting.ranks % 2 == 0) continue;  // the exact sum has 16 bits with an even number of ones
    with_ranks(setting, [](const Group& group) {
      const int n = group.size();
      for (const auto& [dtype, large] : {std::pair(DType::bf16, 256.0), {DType::f16, 2048.0}}) {
        for (const int rank_of_large : {0, n - 1}) {
          const double mine = group.rank() == rank_of_large ? large : 1;
          const double exact = large + n - 1;
          const auto value = [&](std::int64_t) { return exact; };
          const std::string what = str(n, " ranks, ", dtype);
          const std::int64_t count = 1000;
          Tensor sum = full({count}, mine, dtype);
          group.all_reduce(sum).wait();
          expect(sum, 0, count, value, what);
          const std::vector<Tensor> apart{full({30}, mine, dtype), full({5}, mine, dtype)};
          group.all_reduce(apart).wait();
          for (const Tensor& one : apart) expect(one, 0, one.numel(), value, what + " apart");
          const Pieces pieces = even_pieces(count, n, 16);
          const Tensor piece = empty({pieces[static_cast<std::size_t>(group.rank())].count}, dtype);
          group.reduce_scatter(piece, full({count}, mine, dtype), pieces).wait();
          expect(piece, 0, piece.numel(), value, what + " reduce_scatter");
        }
      }
    });
  }
}

TEST_CASE("all_reduce of several tensors, contiguous or not") {
  for (const Setting& setting : all_reduce_settings())
    with_ranks(setting, [](const Group& group) {
      const auto summed = [&](std::int64_t i) { return sum_over_ranks(group.size(), i); };
      const std::uint64_t before = group.stats().collectives;
      std::vector<Tensor> apart = {numbered(group.rank(), 100), numbered(group.rank(), 0),
                                   numbered(group.rank(), 7)};
      group.all_reduce(apart).wait();
      for (const Tensor& tensor : apart) expect(tensor, 0, tensor.numel(), summed, "apart");
      const Tensor whole = numbered(group.rank(), 90).view({30, 3});
      group.all_reduce(std::vector{whole.slice(0, 10), whole.slice(10, 11), whole.slice(11, 30)})
          .wait();
      expect(whole, 0, 90, summed, "end to end");
      if (group.size() > 1) RINGLET_CHECK_EQ(group.stats().collectives - before, 2u, "collectives");
    });
}

TEST_CASE("reduce_scatter and all_gather: pieces of any size, in place and apart") {
  for (const Setting& setting : settings())
    with_ranks(setting, [](const Group& group) {
      const int n = group.size(), rank = group.rank();
      for (const DType dtype : kDTypes)
        for (const std::int64_t unit : {0, 1, 50}) {
          const Pieces pieces = uneven_pieces(n, unit);
          const Piece own = pieces[static_cast<std::size_t>(rank)];
          const std::int64_t offset = own.offset, count = own.count;
          const auto summed = [&](std::int64_t i) { return sum_over_ranks(n, offset + i); };
          const std::string what = str(dtype, ", unit ", unit);

          const Tensor input = numbered(rank, end_of(pieces), dtype);
          const Tensor apart = empty({count}, dtype);
          group.reduce_scatter(apart, input, pieces).wait();
          expect(apart, 0, count, summed, "reduce_scatter, " + what);
          const Tensor again = numbered(rank, end_of(pieces), dtype);
          group.reduce_scatter(again.slice(offset, offset + count), again, pieces).wait();
          expect(again.slice(offset, offset + count), 0, count, summed, "in place, " + what);
          if (is_floating(dtype)) {
            const Tensor average = empty({count}, dtype);
            const Tensor values = numbered(rank, end_of(pieces), dtype);
            group.reduce_scatter(average, values, pieces, ReduceOp::mean).wait();
            expect_average(average, n, offset, "average, " + what);
          }

          for (const bool in_place : {false, true}) {
            const Tensor output = full({end_of(pieces)}, 3, dtype);
            const Tensor mine =
                in_place ? output.slice(offset, offset + count) : empty({count}, dtype);
            Tensor(mine).copy_(numbered(rank, count, dtype));
            group.all_gather(output, mine, pieces).wait();
            for (int peer = 0; peer < n; ++peer) {
              const auto [begin, size] = pieces[static_cast<std::size_t>(peer)];
              expect(
                  output.slice(begin, begin + size), 0, size,
                  [&](std::int64_t i) { return element(peer, i); }, "all_gather, " + what);
            }
            if (n > 1)  // the gap is unchanged
              expect(
                  output, pieces.back().offset - 3, pieces.back().offset,
                  [](std::int64_t) { return 3; }, "gap, " + what);
          }
        }
    });
}

TEST_CASE("broadcast from every root") {
  for (const Setting& setting : settings())
    with_ranks(setting, [](const Group& group) {
      for (int root = 0; root < group.size(); ++root)
        for (const std::int64_t count : lengths(group.size())) {
          const Tensor tensor = numbered(group.rank(), count, DType::bf16);
          group.broadcast(tensor, root).wait();
          expect(
              tensor, 0, count, [&](std::int64_t i) { return element(root, i); }, "broadcast");
        }
    });
}

TEST_CASE("all_gather_bytes: strings of any length") {
  for (const Setting& setting : settings())
    with_ranks(setting, [](const Group& group) {
      const auto word = [](int rank) {
        return std::string(static_cast<std::size_t>(rank * 300), 'a' + static_cast<char>(rank));
      };
      const std::vector<std::string> words = group.all_gather_bytes(word(group.rank()));
      RINGLET_CHECK_EQ(static_cast<int>(words.size()), group.size(), "words");
      for (int rank = 0; rank < group.size(); ++rank)
        RINGLET_CHECK_EQ(words[static_cast<std::size_t>(rank)], word(rank), "word ", rank);
      for (const std::string& none : group.all_gather_bytes(""))
        RINGLET_CHECK(none.empty(), "nothing was sent");
    });
}

TEST_CASE("after a barrier all ranks have been there") {
  for (const Setting& setting : settings()) {
    std::atomic<int> arrived{0};
    with_ranks(setting, [&](const Group& group) {
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        group.barrier();
        RINGLET_CHECK(arrived >= round * group.size(), "a rank is through too early");
        group.barrier();
      }
    });
  }
}

TEST_CASE("direct adds by the tree over ranks: its bits are those of one rank that does") {
  // Values of different magnitudes, so that every order of summation gives different bits.
  const auto value = [](int rank, std::int64_t i) {
    return std::sin(static_cast<double>(rank + 1) * static_cast<double>(i + 1)) *
           std::ldexp(1.0, static_cast<int>((i + rank * 5) % 20));
  };
  constexpr std::int64_t kCount = 3001;
  constexpr int kRanks = 5;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    std::vector<Tensor> inputs;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<double> values;
      for (std::int64_t i = 0; i < kCount; ++i) values.push_back(value(rank, i));
      inputs.push_back(tensor(values, {kCount}).to(dtype));
    }
    // The reference: pairs of sums, rounded once at the end.
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    const auto in = [&](std::size_t rank) { return inputs[rank].to(wide); };
    const Tensor first_four = add(add(in(0), in(1)), add(in(2), in(3)));
    const Tensor expected = add(first_four, in(4)).to(dtype);
    for (const TransportKind transport : transports())
      for (const std::int64_t segment : {64, 4096, 1 << 20})
        launch(
            [&](const Group& group) {
              const Tensor reduced = inputs[static_cast<std::size_t>(group.rank())].clone();
              group.all_reduce(reduced).wait();
              expect_same_bits(reduced, expected, str("direct, ", dtype));
            },
            kRanks, {.group = {.transport = transport, .segment_bytes = segment}});
  }
}

TEST_CASE("every algorithm gives the same bits on every rank and run to run") {
  for (const Setting& setting : all_reduce_settings()) {
    if (setting.ranks != 3) continue;
    std::vector<std::vector<float>> results;
    std::mutex mutex;
    for (int run = 0; run < 3; ++run)
      launch(
          [&](const Group& group) {
            std::vector<float> values = numbered(group.rank(), 5000).to_vector();
            for (int i = 0; float& value : values)
              value = std::sin(value * static_cast<float>(i++));
            Tensor x = tensor(values, {5000});
            group.all_reduce(x).wait();
            const std::lock_guard lock(mutex);
            results.push_back(x.to_vector());
          },
          3,
          {.group = {.transport = setting.transport,
                     .algorithm = setting.algorithm,
                     .segment_bytes = 4096}});
    for (const auto& result : results) CHECK(result == results[0]);
  }
}

TEST_CASE("works run in order while the caller goes on, and end without being waited for") {
  for (const TransportKind transport : transports())
    launch(
        [](const Group& group) {
          std::vector<Tensor> tensors;
          std::vector<Work> works;
          for (int i = 0; i < 50; ++i) {
            tensors.push_back(numbered(group.rank(), 100 * i));
            works.push_back(group.all_reduce(tensors.back()));
          }
          works.back().wait();
          for (const Work& work : works) RINGLET_CHECK(work.done(), "an earlier one is not done");
          Tensor dropped = numbered(group.rank(), 1000);
          group.all_reduce(dropped);
          group.barrier();
          expect(
              dropped, 0, 1000, [&](std::int64_t i) { return sum_over_ranks(3, i); }, "dropped");
        },
        3, {.group = {.transport = transport}});
}

TEST_CASE("a collective starts by itself, whether callers waited for those before it or not") {
  for (const TransportKind transport : transports())
    launch(
        [](const Group& group) {
          for (int round = 0; round < 30; ++round) {
            for (int i = 0; i < round % 4; ++i) group.barrier();
            const Tensor x = full({100}, 1);
            for (int i = 0; i < round % 3; ++i) group.all_reduce(x).wait();
            const Work work = group.all_reduce(x);
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
            while (!work.done() && std::chrono::steady_clock::now() < deadline)
              std::this_thread::sleep_for(std::chrono::microseconds(100));
            RINGLET_CHECK(work.done(), "nobody runs it, round ", round);
          }
        },
        2, {.group = {.transport = transport}});
}

TEST_CASE("a work runs on without its group") {
  for (const TransportKind transport : transports())
    launch(
        [](const Group& world) {
          Tensor x = numbered(world.rank(), 1000);
          Work work;
          {
            const Group pair = world.subgroup({0, 1});
            work = pair.all_reduce(x);
          }
          work.wait();
          expect(
              x, 0, 1000, [&](std::int64_t i) { return sum_over_ranks(2, i); }, "all_reduce");
        },
        2, {.group = {.transport = transport}});
}

TEST_CASE("a collective moves the version of what it writes on at once, and not once more") {
  for (const Setting& setting : all_reduce_settings()) {
    if (setting.ranks == 1) continue;
    std::latch noted(1);
    with_ranks(setting, [&](const Group& group) {
      const std::int64_t n = group.size();
      const Pieces pieces = even_pieces(64 * n, group.size());
      const Tensor first = zeros({100}), sum = zeros({64 * n}), apart = zeros({7}),
                   scattered = zeros({64}), gathered = zeros({64 * n}), sent = zeros({10});
      const std::vector<Tensor> written{sum, apart, scattered, gathered, sent};
      const auto versions = [&] {
        std::vector<std::uint64_t> all;
        for (const Tensor& tensor : written) all.push_back(tensor.version());
        return all;
      };
      if (group.rank() != 0) noted.wait();
      // Nothing runs until rank 0 has read the versions: its peers have not enqueued the first one
      // yet.
      group.all_reduce(first);
      const auto before = versions();
      group.all_reduce({sum, apart});
      group.reduce_scatter(scattered, zeros({64 * n}), pieces);
      group.all_gather(gathered, zeros({64}), pieces);
      const Work last = group.broadcast(sent);
      const auto started = versions();
      if (group.rank() == 0) noted.count_down();
      last.wait();
      for (std::size_t i = 0; i < written.size(); ++i)
        RINGLET_CHECK(started[i] > before[i], "the version of tensor ", i, " has not moved");
      RINGLET_CHECK(versions() == started, "a version moved while the collective ran");
    });
  }
}

TEST_CASE("bytes sent are those of the schedule") {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct})
    launch(
        [](const Group& group) {
          const Tensor x = numbered(group.rank(), 4 * 16 * 100);
          group.all_reduce(x).wait();
          RINGLET_CHECK_EQ(group.stats().bytes_sent, x.nbytes() * 2 * 3 / 4, "2 (n - 1) / n");
          RINGLET_CHECK_EQ(group.stats().collectives, 1u, "collectives");
        },
        4, {.group = {.algorithm = algorithm, .segment_bytes = 1000}});
}

TEST_CASE("subgroups work side by side, and the world goes on") {
  for (const TransportKind transport : transports())
    launch(
        [](const Group& world) {
          const bool even = world.rank() % 2 == 0;
          const Group evens = world.subgroup({0, 2, 4}), odds = world.subgroup({1, 3});
          const Group& mine = even ? evens : odds;
          RINGLET_CHECK_EQ((even ? odds : evens).size(), 1, "not named: a group of one");
          RINGLET_CHECK_EQ(mine.size(), even ? 3 : 2, "size");
          RINGLET_CHECK_EQ(mine.rank(), world.rank() / 2, "rank");
          Tensor x = full({1000}, world.rank());
          mine.all_reduce(x).wait();
          expect(
              x, 0, 1000, [&](std::int64_t) { return even ? 6 : 4; }, "sum of the subgroup");
          world.all_reduce(x).wait();
          expect(
              x, 0, 1000, [](std::int64_t) { return 3 * 6 + 2 * 4; }, "sum of the world");
        },
        5, {.group = {.transport = transport}});
}

TEST_CASE("a rank may join the world, but not its subgroups") {
  launch(
      [](const Group& world) {
        const Group all = world.subgroup({0, 1});
        world.store().add(kPortOfNextWorld, 1);
        RINGLET_CHECK(rank_waits(world), "the world");
        RINGLET_CHECK(!rank_waits(all), "a subgroup");
      },
      2, {.group = {.elastic = true}});
}

#if defined(RINGLET_TESTS_GLOO)
TEST_CASE("native: gloo's own collectives give the same" * doctest::test_suite("host")) {
  for (const int ranks : {2, 3})
    with_ranks({TransportKind::gloo, Algorithm::native, ranks}, [](const Group& group) {
      const int n = group.size();
      for (const DType dtype : kDTypes)
        for (const std::int64_t count : lengths(n)) {
          const Tensor sum = numbered(group.rank(), count, dtype);
          group.all_reduce(sum).wait();
          expect(
              sum, 0, count, [&](std::int64_t i) { return sum_over_ranks(n, i); }, "all_reduce");
          const Tensor all = empty({count * n}, dtype);
          group.all_gather(all, numbered(group.rank(), count, dtype), even_pieces(count * n, n))
              .wait();
          for (int rank = 0; rank < n; ++rank)
            expect(
                all.slice(rank * count, (rank + 1) * count), 0, count,
                [&](std::int64_t i) { return element(rank, i); }, "all_gather");
          const Tensor mine = numbered(group.rank(), count, dtype);
          group.broadcast(mine, n - 1).wait();
          expect(
              mine, 0, count, [&](std::int64_t i) { return element(n - 1, i); }, "broadcast");
          group.barrier();
        }
    });
}

TEST_CASE("native: gloo has no reduce-scatter, and the other transports have nothing" *
          doctest::test_suite("host")) {
  CHECK_THROWS_WITH_AS(
      launch(
          [](const Group& group) {
            const Tensor x = zeros({4});
            group.reduce_scatter(empty({2}), x, even_pieces(4, 2)).wait();
          },
          2, {.group = {.transport = TransportKind::gloo, .algorithm = Algorithm::native}}),
      doctest::Contains("[reduce_scatter] gloo has none of its own: choose ring or direct"), Error);
  CHECK_THROWS_AS(launch([](const Group&) {}, 2, {.group = {.algorithm = Algorithm::native}}),
                  InputError);
}
#endif

TEST_CASE("in-kernel algorithms are for threads of one process; their CPU tensors take steps") {
  CHECK_THROWS_WITH_AS(
      launch([](const Group&) {}, 2,
             {.group = {.transport = TransportKind::shm, .algorithm = Algorithm::in_kernel_ring}}),
      doctest::Contains("[group] in-kernel-ring is for ranks that are threads of one process, and "
                        "these meet over shm: choose ring or direct"),
      InputError);
  for (const Algorithm algorithm : {Algorithm::in_kernel_ring, Algorithm::in_kernel_direct})
    launch(
        [](const Group& group) {
          const Tensor sum = numbered(group.rank(), 100).to(Device{});
          group.all_reduce(sum).wait();
          expect(
              sum, 0, 100, [](std::int64_t i) { return sum_over_ranks(2, i); }, "of a CPU");
        },
        2, {.group = {.algorithm = algorithm}});
}

TEST_CASE("a group of one returns at once from everything") {
  const Group group;
  CHECK(group.rank() == 0);
  CHECK(group.size() == 1);
  Tensor x = numbered(0, 10);
  const Work work = group.all_reduce(x, ReduceOp::mean);
  CHECK(work.done());
  work.wait();
  group.broadcast(x).wait();
  group.barrier();
  Tensor out = empty({4});
  group.reduce_scatter(out, x, {{3, 4}}).wait();
  CHECK(out.to_vector() == x.slice(3, 7).to_vector());
  group.all_gather(x, out, {{0, 4}}).wait();
  CHECK(x[0].item() == static_cast<float>(element(0, 3)));
  CHECK(group.all_gather_bytes("me") == std::vector<std::string>{"me"});
  CHECK(group.subgroup({0}).size() == 1);
  CHECK(group.stats().collectives == 0);
}

TEST_CASE("a group refuses bad calls on their rank, before anything is sent") {
  const Group group;
  Tensor x = zeros({4}), none;
  CHECK_THROWS_WITH_AS(group.all_reduce(none), "[all_reduce] of an undefined tensor", Error);
  CHECK_THROWS_WITH_AS(group.all_reduce(zeros({2}, DType::i32), ReduceOp::mean),
                       "[all_reduce] i32 tensors have no average: use sum", Error);
  CHECK_THROWS_AS(group.all_reduce(std::vector<Tensor>{}), Error);
  CHECK_THROWS_AS(group.all_reduce(std::vector{x, zeros({1}, DType::bf16)}), Error);
  CHECK_THROWS_AS(group.reduce_scatter(x, x, {{0, 2}, {2, 2}}), Error);
  CHECK_THROWS_AS(group.reduce_scatter(x, x, {{1, 4}}), Error);
  CHECK_THROWS_AS(group.all_gather(x, zeros({4}, DType::i32), {{0, 4}}), Error);
  CHECK_THROWS_WITH_AS(group.broadcast(x, 1), "[broadcast] from rank 1 of 1", Error);
  CHECK_THROWS_AS(group.subgroup({1}), Error);
  CHECK_THROWS_AS(parse_transport("tcp"), InputError);
  CHECK(parse_algorithm("ring") == Algorithm::ring);
  CHECK(parse_algorithm("in-kernel-direct") == Algorithm::in_kernel_direct);
  CHECK(parse_transport("auto") == TransportKind::automatic);
  CHECK(parse_transport("nccl") == TransportKind::nccl);
}
