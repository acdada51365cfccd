// Refused allocations: the error, the state afterwards, and the statistics.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"

using namespace ringlet;

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

/// During its lifetime, the system maps at most `nbytes` more for this process.
class LittleRoom {
 public:
  explicit LittleRoom(std::size_t nbytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    REQUIRE(pages > 0);
    REQUIRE(::getrlimit(RLIMIT_AS, &before_) == 0);
    const rlimit little{pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + nbytes,
                        before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_AS, &little) == 0);
  }
  ~LittleRoom() { ::setrlimit(RLIMIT_AS, &before_); }
  LittleRoom(const LittleRoom&) = delete;
  LittleRoom& operator=(const LittleRoom&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("where the system has no room for a mapping of the usual size, a smaller one serves") {
  const Device device = Device::parse("cpu:8");  // used by no other test
  DeviceBackend& cpu = backend(DeviceType::cpu);
  MemoryBlock first, last;
  MemoryStats one, refused;
  {
    const LittleRoom room(24 * kMebibyte);
    first = cpu.allocate(device, 4 * kMebibyte);
    one = memory_stats(device);
    CHECK_THROWS_WITH_AS(cpu.allocate(device, 64 * kMebibyte),
                         "[allocate] 67108864 bytes of memory: Cannot allocate memory (4194304 in "
                         "use)",
                         Error);
    refused = memory_stats(device);
    last = cpu.allocate(device, 6 * kMebibyte);
  }
  CHECK(one.reserved == 4 * kMebibyte);
  CHECK(one.allocated == 4 * kMebibyte);
  CHECK(one.system_allocations == 1);
  CHECK(refused.reserved == one.reserved);
  CHECK(refused.allocated == one.allocated);
  CHECK(refused.peak == one.peak);
  CHECK(refused.allocations == 1);
  CHECK(refused.system_allocations == 1);
  first.data[4 * kMebibyte - 1] = last.data[6 * kMebibyte - 1] = std::byte{1};

  const MemoryStats two = memory_stats(device);
  CHECK(two.reserved == 10 * kMebibyte);
  CHECK(two.allocated == 10 * kMebibyte);
  CHECK(two.peak == 10 * kMebibyte);
  CHECK(two.system_allocations == 2);
  cpu.release(device, first);
  cpu.release(device, last);
  CHECK(memory_stats(device).allocated == 0);

  const MemoryBlock usual = cpu.allocate(device, 7 * kMebibyte);  // there is memory again
  CHECK(memory_stats(device).reserved == (10 + 32) * kMebibyte);
  cpu.release(device, usual);
}

TEST_CASE(
    "a block that a memory limit refuses is not counted, and smaller blocks are still allocated") {
  const Device device = Device::parse("cpu:9");  // used by no other test
  DeviceBackend& cpu = backend(DeviceType::cpu);
  set_memory_limit(device, 8 * kMebibyte);
  CHECK_THROWS_WITH_AS(cpu.allocate(device, 9 * kMebibyte),
                       "[allocate] 9437184 bytes on cpu:9: 0 are in use, the limit is 8388608",
                       Error);
  const MemoryStats none = memory_stats(device);
  CHECK(none.reserved == 0);
  CHECK(none.peak == 0);
  CHECK(none.allocations == 0);
  CHECK(none.limit == 8 * kMebibyte);
  cpu.release({}, cpu.allocate({}, 9 * kMebibyte));  // no limit of another device

  const MemoryBlock all = cpu.allocate(device, 8 * kMebibyte);
  CHECK_THROWS_WITH_AS(cpu.allocate(device, 1),
                       "[allocate] 64 bytes on cpu:9: 8388608 are in use, the limit is 8388608",
                       Error);
  const MemoryStats full = memory_stats(device);
  CHECK(full.allocated == 8 * kMebibyte);
  CHECK(full.peak == 8 * kMebibyte);
  CHECK(full.allocations == 1);
  CHECK(full.system_allocations == 1);
  cpu.release(device, all);
  CHECK(memory_stats(device).allocated == 0);
  set_memory_limit(device, 0);
  cpu.release(device, cpu.allocate(device, 9 * kMebibyte));
}
