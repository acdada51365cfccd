#include "ringlet/train/cli/links.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("host");

using ringlet::Tensor;
using ringlet::cli::check_link;
using ringlet::cli::Link;

TEST_CASE("a link is checked by what arrives") {
  const ringlet::Device first{}, second{ringlet::DeviceType::cpu, 1};
  for (const std::int64_t numel : {1, 1000}) {
    const Link link = check_link(first, second, numel);
    CHECK(link.right);
    CHECK(link.bytes_per_second > 0);
    CHECK_EQ(link.error, "");
  }
  const auto loses_one = [](Tensor& to, const Tensor& from) {
    to.copy_(from);
    to.slice(17, 18).fill_(0);
  };
  CHECK_FALSE(check_link(first, second, 1000, loses_one).right);
  const auto swaps_halves = [](Tensor& to, const Tensor& from) {
    to.slice(0, 500).copy_(from.slice(500, 1000));
    to.slice(500, 1000).copy_(from.slice(0, 500));
  };
  CHECK_FALSE(check_link(first, second, 1000, swaps_halves).right);
  const auto throws = [](Tensor&, const Tensor&) { ringlet::fail("it rains"); };
  const Link broken = check_link(first, second, 1000, throws);
  CHECK_FALSE(broken.right);
  CHECK_EQ(broken.error, "it rains");
}

TEST_SUITE_END();
