#include "ringlet/core/tensor/tensor.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <sstream>

#include "../device.h"
#include "child.h"
#include "ringlet/core/cpu/pages.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/reduce.h"

using namespace ringlet;
using Floats = std::vector<float>;

TEST_CASE("views and slices share storage, everything else copies") {
  Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.view({3, -1}).shape() == Shape{3, 2});
  CHECK(x[1].to_vector() == Floats{4, 5, 6});
  CHECK(x.slice(1, 2).storage() == x.storage());
  x[1].fill_(0);
  CHECK(x.to_vector() == Floats{1, 2, 3, 0, 0, 0});
  CHECK(x.clone().storage() != x.storage());
  CHECK_THROWS_WITH_AS(x.view({4, 2}), "[view] (2, 3) seen as (4, 2): 8 != 6", Error);
  CHECK_THROWS_AS(x.slice(1, 3), Error);
}

TEST_CASE("writing moves the storage's version on") {
  Tensor x = zeros({4});
  const auto before = x.version();
  CHECK(x[0].data<float>() != nullptr);
  CHECK(x.version() == before);
  x[0].fill_(1);
  CHECK(x.version() > before);
}

TEST_CASE("every dtype holds and converts values") {
  for (DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8}) {
    CAPTURE(dtype);
    CHECK(arange(0, 5, 1, dtype).to_vector<double>() == std::vector<double>{0, 1, 2, 3, 4});
    CHECK(full({2}, 3, dtype).to(DType::f64).to(dtype).to_vector() == Floats{3, 3});
  }
  CHECK(tensor({1.00390625f}).to(DType::bf16).to_vector() == Floats{1.0f});  // ties to even
  CHECK(tensor({6.1e-5f, 65520.0f, 1e-8f}).to(DType::f16).to_vector() ==
        Floats{float(float16(6.1e-5f)), std::numeric_limits<float>::infinity(), 0});
  CHECK_THROWS_AS(zeros({1}).data<double>(), Error);
}

TEST_CASE("binary ops broadcast as NumPy does") {
  const Tensor a = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(add(a, tensor({10.f, 20.f, 30.f})).to_vector() == Floats{11, 22, 33, 14, 25, 36});
  CHECK(mul(a, tensor<float>({2, 3}, {2, 1})).to_vector() == Floats{2, 4, 6, 12, 15, 18});
  CHECK(sub(tensor<float>({1, 2}, {2, 1, 1}), a).shape() == Shape{2, 2, 3});
  CHECK(ge(a, scalar_like(4, a)).to_vector<int>() == std::vector<int>{0, 0, 0, 1, 1, 1});
  CHECK_THROWS_WITH_AS(add(a, zeros({2})), "[add] shapes (2, 3) and (2,) do not broadcast", Error);
  CHECK(where(ge(a, scalar_like(3, a)), a, scalar_like(0, a)).to_vector() ==
        Floats{0, 0, 3, 4, 5, 6});
  CHECK(add(zeros({0, 3}), a.slice(0, 1)).shape() == Shape{0, 3});
  const std::vector<std::int64_t> sizes = {3, 2};
  CHECK(zeros(sizes).shape() == Shape{3, 2});
}

TEST_CASE("a tensor prints its values, dtype, shape and device") {
  std::ostringstream out;
  out << tensor<float>({1, 2, 3, 4}, {2, 2});
  CHECK(out.str() == str("tensor([[1, 2],\n [3, 4]], f32 (2, 2) ", default_device(), ")"));
}

TEST_CASE("integers print whole") {
  std::ostringstream out;
  out << full({1}, 1234567, DType::i64);
  CHECK(out.str().starts_with("tensor([1234567], i64"));
}

TEST_CASE("a tensor is copied over itself as if through another") {
  const Tensor x = arange(0, 1000);
  x.slice(1, 1000).copy_(x.slice(0, 999));
  CHECK(x.to_vector<std::int64_t>().back() == 998);
  CHECK(x.to_vector<std::int64_t>()[1] == 0);
}

TEST_CASE("an operation without a kernel says so, in one way") {
  CHECK_THROWS_WITH_AS(exp(arange(0, 3)), "[exp] does not take i64 tensors", Error);
  const Tensor half = zeros({3}, DType::f16);
  CHECK_THROWS_WITH_AS(mul(half, half), "[mul] does not take f16 tensors", Error);
  CHECK_THROWS_WITH_AS(sum(half), "[sum] does not take f16 tensors", Error);
  CHECK_THROWS_WITH_AS(add(arange(0, 3), half), "[add] tensors of different dtypes: i64 != f16",
                       Error);
}

TEST_CASE("sizes that cannot be are refused, not wrapped around") {
  CHECK_THROWS_AS(empty({std::int64_t{1} << 62}), Error);
  CHECK_THROWS_AS(empty({(std::int64_t{1} << 62) - 1}), Error);  // rounding up would overflow to 0
  CHECK_THROWS_AS(empty({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  CHECK_THROWS_AS(zeros({6}).view({-2, -3}), Error);
}

TEST_CASE_FIXTURE(OnCpu, "a forked child leaves its parent's memory alone") {
  const Tensor mine = full({4096}, 1);
  const pid_t child = fork();
  if (child == 0) {
    Tensor other = full({4096}, 2);  // would reuse the parent's free memory
    _exit(other.data<float>()[0] == 2 && mine.data<float>()[0] == 1 ? 0 : 1);
  }
  const Tensor after = full({4096}, 3);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(mine.to_vector() == std::vector<float>(4096, 1));
  CHECK(after.to_vector() == std::vector<float>(4096, 3));
}

TEST_CASE("memory that was freed is given out again, free neighbours as one") {
  const Device device = Device::parse("cpu:6");  // used by no other test
  DeviceBackend& cpu = backend(DeviceType::cpu);
  const MemoryBlock first = cpu.allocate(device, 4096);
  cpu.release(device, first);
  const MemoryBlock again = cpu.allocate(device, 4096);
  CHECK(again.data == first.data);
  const std::uint64_t mapped = memory_stats(device).system_allocations;
  CHECK(mapped == 1);
  for (int round = 0; round < 1000; ++round) {
    const Tensor a = empty({1000 + round}, DType::f32, device);
    const Tensor b = empty({5000 - round}, DType::f32, device);
  }
  CHECK(memory_stats(device).system_allocations == mapped);

  // Together they fill the segment: only both merged have enough room.
  const std::size_t half = (memory_stats(device).reserved - again.nbytes) / 2;
  for (const bool left_first : {true, false}) {
    const MemoryBlock left = cpu.allocate(device, half), right = cpu.allocate(device, half);
    cpu.release(device, left_first ? left : right);
    cpu.release(device, left_first ? right : left);
    const MemoryBlock both = cpu.allocate(device, 2 * half);
    CHECK(both.data == std::min(left.data, right.data));
    CHECK(memory_stats(device).system_allocations == mapped);
    cpu.release(device, both);
  }
  cpu.release(device, again);
  CHECK(memory_stats(device).allocated == 0);
}

TEST_CASE("memory is private until the process has peers, then they can map it") {
  const auto in_a_child = [](const auto& holds) {
    CHECK(exit_code_of([&] { return holds() ? 0 : 1; }) == 0);
  };
  DeviceBackend& cpu = backend(DeviceType::cpu);
  const Device device = Device::parse("cpu:5");  // used by no other test
  in_a_child([&] {
    const MemoryBlock before = cpu.allocate(device, 4096);
    cpu.release(device, cpu.allocate(device, 8192));  // private, and free
    cpu::share_memory();
    const MemoryBlock after = cpu.allocate(device, 8192);
    return before.fd < 0 && cpu.descriptor(device, before) < 0 && after.fd >= 0 &&
           cpu.descriptor(device, after) == after.fd;
  });
  // A child has separate peers, or none.
  in_a_child([&] {
    cpu::share_memory();
    const pid_t child = fork();
    if (child == 0) _exit(cpu.allocate(device, 4096).fd < 0 ? 0 : 1);
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
  });
}

TEST_CASE_FIXTURE(OnCpu, "a block's descriptor, mapped again, shows its bytes") {
  cpu::share_memory();
  const Tensor x = arange(0, 5000, 1, DType::i32);
  const MemoryBlock& block = x.storage()->block();
  REQUIRE(block.fd >= 0);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = block.fd_offset % page;
  const std::size_t nbytes = before + x.nbytes();
  void* mapped = mmap(nullptr, nbytes, PROT_READ, MAP_SHARED, block.fd,
                      static_cast<off_t>(block.fd_offset - before));
  REQUIRE(mapped != MAP_FAILED);
  CHECK(std::memcmp(static_cast<std::byte*>(mapped) + before, x.bytes(), x.nbytes()) == 0);
  Tensor(x).fill_(7);
  CHECK(std::memcmp(static_cast<std::byte*>(mapped) + before, x.bytes(), x.nbytes()) == 0);
  munmap(mapped, nbytes);
}

TEST_CASE("a copy to another device takes the values of its moment") {
  const Device first = default_device();
  const int devices = first.type == DeviceType::cpu ? 2 : backend(first.type).device_count();
  if (devices < 2) {
    MESSAGE("skipped: needs two devices");
    return;
  }
  const Device second{first.type, (first.index + 1) % devices};
  for (int i = 0; i < 4; ++i) {
    Tensor x = full({1000}, i);
    const Tensor y = x.to(second);
    x.fill_(-1);  // after the copy has read it
    const Tensor back = (y + 1).to(first);
    CHECK(y.device() == second);
    CHECK(y.to_vector() == Floats(1000, static_cast<float>(i)));
    CHECK((back + 1).to_vector() == Floats(1000, static_cast<float>(i + 2)));
  }
}
