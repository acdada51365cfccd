// The GPU of each rank of a group over NCCL, with emulated GPUs of two hosts.
#include "ringlet/comm/transports/nccl_rank.h"

#include <doctest/doctest.h>

#include "ranks.h"
#include "ringlet/tests/comm/environment.h"
#include "ringlet/tests/fake_nccl.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;

namespace {

using BusIds = std::vector<std::string>;

/// The error of an all-reduce of ranks in threads, with rank r on device r.
std::string sum_on(const BusIds& bus_ids, int* made) {
  DelayedDevice device(7, bus_ids);
  FakeNccl nccl(device);
  std::string message;
  try {
    launch(
        [](const Group& group) {
          const Tensor x = full({10}, 1, DType::f32, Device{DeviceType::cuda, group.rank()});
          group.all_reduce(x).wait();
          expect(
              x, 0, 10, [&](std::int64_t) { return group.size(); }, "sum");
        },
        static_cast<int>(bus_ids.size()), {.group = {.transport = TransportKind::nccl}});
  } catch (const InputError& error) {
    message = error.what();
  }
  *made = nccl.made();
  return message;
}

GpuPlace place(const std::string& bus_id, const std::string& host_id) {
  return {bus_id, "cuda:0", host_id, host_id};
}

/// The place of this process's cuda:0, under these variables.
GpuPlace place_under(const std::map<std::string, std::string>& variables) {
  const DelayedDevice device(7, BusIds{"0000:3b:00.0"});
  ::unsetenv("NCCL_HOSTID");
  return with_environment(variables, [] { return gpu_place({DeviceType::cuda, 0}); });
}

}  // namespace

TEST_CASE("nccl: ranks that have a GPU each, by whatever name, sum there") {
  int made = 0;
  CHECK_EQ(sum_on({"0000:3b:00.0", "0000:5e:00.0", "0001:3b:00.0"}, &made), "");
  CHECK_EQ(made, 3);
}

TEST_CASE("nccl: two ranks that share a GPU are refused with both, before NCCL is asked") {
  int made = 0;
  const std::string message = sum_on({"0000:3b:00.0", "0000:5e:00.0", "0000:3b:00.0"}, &made);
  CHECK(message.find("rank 0 (on its cuda:0) and rank 2 (on its cuda:2) share the GPU "
                     "0000:3b:00.0 of ") != message.npos);
  CHECK(message.find("expected at most as many ranks on a host as it has GPUs") != message.npos);
  CHECK(message.find('\n') == message.npos);
  CHECK_EQ(made, 0);
}

TEST_CASE("nccl: GPUs of two hosts are two, and so are those of which nothing is known") {
  CHECK_EQ(shared_gpu({place("a", "one"), place("a", "two")}), "");
  CHECK_EQ(shared_gpu({place("", "one"), place("", "one")}), "");
  CHECK_NE(shared_gpu({place("a", "one"), place("b", "one"), place("b", "one")}), "");
}

TEST_CASE("nccl: the same GPU twice is let through where NCCL is told of two hosts") {
  const GpuPlace as_it_is = place_under({});
  CHECK_EQ(as_it_is.bus_id, "0000:3b:00.0");
  CHECK_NE(shared_gpu({as_it_is, place_under({})}), "");
  const GpuPlace one = place_under({{"NCCL_HOSTID", "one"}});
  const GpuPlace two = place_under({{"NCCL_HOSTID", "two"}});
  CHECK_EQ(shared_gpu({one, two}), "");
  CHECK_NE(shared_gpu({one, one}), "");
  const GpuPlace told = place_under({{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}});
  CHECK_EQ(shared_gpu({told, told}), "");
}

TEST_SUITE_END();
