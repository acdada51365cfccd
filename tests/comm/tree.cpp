// Sums over logical ranks: the tree as data, and the same bits on any number of ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>

#include "ranks.h"
#include "ringlet/comm/logical_sum.h"
#include "ringlet/core/ops/elementwise.h"

using namespace ringlet;
using namespace ringlet::comm;

namespace {

/// The definition: sum(begin, end) of anything with a leaf and a sum of two.
template <class T>
T by_definition(int begin, int end, const std::function<T(int)>& leaf,
                const std::function<T(const T&, const T&)>& sum) {
  if (begin + 1 == end) return leaf(begin);
  const int middle =
      begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(end - begin - 1)));
  return sum(by_definition(begin, middle, leaf, sum), by_definition(middle, end, leaf, sum));
}

std::string digits(int leaf) { return str(leaf, ' '); }
std::string join(const std::string& a, const std::string& b) { return "(" + a + "+ " + b + ")"; }
std::string expression(LeafRange leaves) {
  return by_definition<std::string>(leaves.begin, leaves.end, digits, join);
}

/// The expression that a stack makes of these sources.
std::string by_stack(const std::vector<std::string>& sources,
                     const std::function<int(int)>& additions) {
  std::vector<std::string> stack;
  for (int i = 0; i < static_cast<int>(sources.size()); ++i) {
    stack.push_back(sources[static_cast<std::size_t>(i)]);
    for (int left = additions(i); left > 0; --left) {
      REQUIRE(stack.size() >= 2);
      const std::string right = stack.back();
      stack.pop_back();
      stack.back() = join(stack.back(), right);
    }
  }
  REQUIRE(stack.size() == 1);
  return stack.front();
}

std::string sum_of_node(LeafRange node) {
  std::vector<std::string> leaves;
  for (int leaf = node.begin; leaf < node.end; ++leaf) leaves.push_back(digits(leaf));
  return by_stack(leaves, [&](int i) { return additions_after(i, node.size()); });
}

/// Calls visit(ranks, logical_ranks).
void for_sizes(const std::function<void(int, int)>& visit) {
  for (int leaves = 1; leaves <= 16; ++leaves)
    for (int size = 1; size <= leaves; ++size) visit(size, leaves);
}

/// Leaf r of n elements, of magnitudes such that every order of summation gives different bits.
Tensor leaf_of(int r, std::int64_t n, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(std::sin(static_cast<double>(r + 1) * static_cast<double>(i + 1)) *
                     std::ldexp(1.0, static_cast<int>((i + r * 5) % 20)));
  return tensor(values, {n}).to(dtype).to(dtype == DType::f64 ? DType::f64 : DType::f32);
}

Tensor tree_of(LeafRange leaves, std::int64_t n, DType dtype) {
  return by_definition<Tensor>(
      leaves.begin, leaves.end, [&](int r) { return leaf_of(r, n, dtype); },
      [](const Tensor& a, const Tensor& b) { return add(a, b); });
}

/// The sums of a rank's nodes. `together`: in one storage, with gaps and out of order.
NodeSums nodes_of(const Group& group, int leaves, std::int64_t n, DType dtype, bool together) {
  const std::vector<LeafRange> ranges = nodes_of_rank(group.rank(), group.size(), leaves);
  NodeSums sums{{}, leaves};
  const auto count = static_cast<std::int64_t>(ranges.size());
  const Tensor all = empty({count * (n + 3)}, dtype == DType::f64 ? DType::f64 : DType::f32);
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor value = tree_of(ranges[static_cast<std::size_t>(i)], n, dtype);
    const std::int64_t begin = (count - 1 - i) * (n + 3);
    if (together) all.slice(begin, begin + n).copy_(value);
    sums.nodes.push_back(together ? all.slice(begin, begin + n) : value);
  }
  return sums;
}

std::vector<int> sizes(TransportKind transport) {
  if (transport == TransportKind::gloo) return {2, 3, 6};
  return {1, 2, 3, 4, 6, 8};
}

std::string failure(const std::function<void(const Group&)>& rank_main, GroupOptions options = {}) {
  return end_of_launch(rank_main, 2, options);
}

}  // namespace

TEST_SUITE_BEGIN("host");

TEST_CASE("a rank's nodes are its block, cut into nodes of the tree, and each is a tree") {
  for_sizes([](int size, int leaves) {
    CAPTURE(size);
    CAPTURE(leaves);
    std::set<std::string> of_tree;
    const auto known = [&](const std::string& node) { return *of_tree.insert(node).first; };
    by_definition<std::string>(
        0, leaves, [&](int leaf) { return known(digits(leaf)); },
        [&](const auto& a, const auto& b) { return known(join(a, b)); });
    int next = 0;
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<LeafRange> nodes = nodes_of_rank(rank, size, leaves);
      const LeafRange block = leaves_of_rank(rank, size, leaves);
      CHECK(block.begin == next);
      CHECK(block.size() >= leaves / size);
      for (const LeafRange node : nodes) {
        CHECK(node.begin == next);
        CHECK(of_tree.contains(expression(node)));
        CHECK(sum_of_node(node) == expression(node));
        next = node.end;
      }
      CHECK(block.end == next);
      // At most twice the logarithm; one if both numbers are powers of two.
      const auto most =
          static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(block.size())));
      CHECK(nodes.size() <= std::max<std::size_t>(1, 2 * (most - 1)));
      if (std::has_single_bit(static_cast<unsigned>(size)) &&
          std::has_single_bit(static_cast<unsigned>(leaves)))
        CHECK(nodes.size() == 1);
    }
    CHECK(next == leaves);
  });
}

TEST_CASE("owners add the nodes of all ranks to the tree over all leaves") {
  for_sizes([](int size, int leaves) {
    CAPTURE(size);
    CAPTURE(leaves);
    const std::string whole = expression({0, leaves});
    for (int rank = 0; rank < size; ++rank) {
      const Schedule schedule = make_tree_schedule(Op::reduce_scatter, rank, size, leaves);
      REQUIRE(schedule.size() == 1);
      CHECK(schedule[0].then == Then::add_all);
      std::vector<Transfer> expected;
      std::vector<std::string> sources;
      for (int peer = 0; peer < size; ++peer) {
        const std::vector<LeafRange> nodes = nodes_of_rank(peer, size, leaves);
        for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
          sources.push_back(sum_of_node(nodes[static_cast<std::size_t>(node)]));
          if (peer == rank) continue;
          expected.push_back({peer, rank, node});
          const Step theirs = make_tree_schedule(Op::reduce_scatter, peer, size, leaves)[0];
          CHECK(std::ranges::count(theirs.sends, Transfer{rank, rank, node}) == 1);
        }
      }
      CHECK(std::ranges::is_permutation(schedule[0].receives, expected));
      const auto& additions = schedule[0].additions;
      const auto count = static_cast<int>(sources.size());
      CHECK(by_stack(sources, [&](int i) {
              return additions.empty() ? additions_after(i, count)
                                       : additions[static_cast<std::size_t>(i)];
            }) == whole);
      const Pieces pieces = even_pieces(60 * size, size);
      const auto mine = static_cast<std::int64_t>(nodes_of_rank(rank, size, leaves).size());
      CHECK(elements_sent(schedule, pieces) == mine * 60 * (size - 1));
      CHECK(elements_sent(make_tree_schedule(Op::all_reduce, rank, size, leaves), pieces) ==
            (mine + 1) * 60 * (size - 1));
    }
  });
}

TEST_CASE("with as many logical ranks as ranks a sum is the plain collective") {
  for (int size = 1; size <= 6; ++size)
    for (int rank = 0; rank < size; ++rank)
      CHECK(make_tree_schedule(Op::all_reduce, rank, size, size) ==
            make_schedule(Op::all_reduce, Algorithm::direct, rank, size));
}

TEST_SUITE_END();

TEST_CASE("sums over 8 logical ranks have the same bits on any number of ranks") {
  constexpr int kLeaves = 8;
  constexpr std::int64_t kCount = 1003;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor expected = tree_of({0, kLeaves}, kCount, dtype);
    Tensor in_order = leaf_of(0, kCount, dtype);
    for (int r = 1; r < kLeaves; ++r) in_order = add(in_order, leaf_of(r, kCount, dtype));
    CHECK_THROWS_AS(expect_same_bits(in_order, expected, "sequential"), Error);
    for (const TransportKind transport : transports())
      for (const int size : sizes(transport))
        for (const bool together : {true, false}) {
          INFO(name(transport), ", ", size, " ranks");
          CHECK_NOTHROW(launch(
              [&](const Group& group) {
                const NodeSums sums = nodes_of(group, kLeaves, kCount, dtype, together);
                const std::vector<Tensor> others(sums.nodes.begin() + 1, sums.nodes.end());
                std::vector<Tensor> before;
                for (const Tensor& node : others) before.push_back(node.clone());
                group.all_reduce(sums).wait();
                expect_same_bits(sums.nodes[0], expected, "all_reduce");
                for (std::size_t i = 0; i < others.size(); ++i)
                  expect_same_bits(others[i], before[i], "another node");

                Pieces pieces = even_pieces(kCount - 3, group.size());
                pieces.back().offset += 3;
                const auto [offset, count] = pieces[static_cast<std::size_t>(group.rank())];
                const NodeSums again = nodes_of(group, kLeaves, kCount, dtype, together);
                const Tensor mine = again.nodes[0].slice(offset, offset + count);
                const Tensor out = empty_like(mine), part = expected.slice(offset, offset + count);
                group.reduce_scatter(out, again, pieces).wait();
                expect_same_bits(out, part, "reduce_scatter");
                group.reduce_scatter(mine, again, pieces).wait();
                expect_same_bits(mine, part, "reduce_scatter in place");
              },
              size, {.group = {.transport = transport, .segment_bytes = 512}}));
        }
  }
}

TEST_CASE("all_reduce of as many logical ranks as ranks has the bits of a plain one") {
  for (const int size : {2, 4, 5})
    CHECK_NOTHROW(launch(
        [](const Group& group) {
          const Tensor x = leaf_of(group.rank(), 500, DType::f32);
          group.all_reduce(x).wait();
          const NodeSums sums = nodes_of(group, group.size(), 500, DType::f32, true);
          group.all_reduce(sums).wait();
          expect_same_bits(x, sums.nodes[0], "a leaf for each rank");
          expect_same_bits(x, tree_of({0, group.size()}, 500, DType::f32), "the tree");
        },
        size));
}

TEST_CASE("sums over logical ranks name what is wrong") {
  const auto sum = [](int leaves, int nodes, DType dtype) {
    return [=](const Group& group) {
      const NodeSums sums{std::vector<Tensor>(static_cast<std::size_t>(nodes), zeros({4}, dtype)),
                          leaves};
      group.all_reduce(sums).wait();
    };
  };
  CHECK(failure(sum(1, 1, DType::f32)).find("1 logical ranks on 2") != std::string::npos);
  CHECK(failure(sum(4, 2, DType::f32)).find("nodes of rank") != std::string::npos);
  CHECK(failure(sum(4, 1, DType::bf16)).find("partial sums of bf16 are rounded; bring f32") !=
        std::string::npos);
  CHECK(failure(sum(4, 1, DType::f32), {.algorithm = Algorithm::ring})
            .find("4 logical ranks on 2 are summed by a tree: choose direct, not ring") !=
        std::string::npos);
  CHECK(failure(sum(2, 1, DType::f32), {.algorithm = Algorithm::ring}).empty());
  CHECK(failure([&](const Group& group) {
          sum(group.rank() == 0 ? 4 : 8, 1, DType::f32)(group);
        }).find("with other pieces") != std::string::npos);
}
