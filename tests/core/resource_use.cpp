#include "ringlet/core/cpu/resource_use.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "ringlet/core/cpu/pages.h"
#include "ringlet/core/tensor/tensor.h"
#include "ringlet/core/threads/thread.h"

using namespace ringlet;

TEST_CASE("private mappings begin at huge pages and have them where the system gives them") {
  constexpr std::size_t kHuge = std::size_t{2} << 20, kSmallFaults = 3 * 512;
  const cpu::Pages pages = cpu::map_private(2 * kHuge + 1);
  REQUIRE(pages.data);
  CHECK(reinterpret_cast<std::uintptr_t>(pages.data) % kHuge == 0);
  CHECK(pages.nbytes == 3 * kHuge);
  const ResourceUse before = resource_use();
  std::memset(pages.data, 1, pages.nbytes);
  const std::uint64_t faults = (resource_use() - before).page_faults;
  CHECK(faults >= 3);
  // In fragmented memory not every 2 MiB can be a huge page.
  if (cpu::huge_pages().for_private) CHECK(faults < kSmallFaults);
  cpu::unmap(pages);
}

TEST_CASE("memory that a process maps is counted; memory that it has already is not") {
  const Device device = Device::parse("cpu:4");  // used by no other test
  const ResourceUse start = resource_use();
  { const Tensor first = zeros({1 << 20}, DType::f32, device); }
  const ResourceUse first = resource_use() - start;
  CHECK(first.mappings == 1);
  CHECK(first.mapped_bytes >= std::size_t{4} << 20);
  CHECK(first.page_faults > 0);

  const ResourceUse again = resource_use();
  { const Tensor second = zeros({1 << 20}, DType::f32, device); }
  CHECK((resource_use() - again).mappings == 0);
  CHECK((resource_use() - again).mapped_bytes == 0);

  start_thread([] {}).join();
  CHECK((resource_use() - again).threads_started == 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK((resource_use() - again).context_switches > 0);
}
