#include "copy.h"

#include <cstring>

#include "fault.h"
#include "written.h"

namespace ringlet::emulated {
namespace {

class OrderOfStreams final : public Order {
 public:
  explicit OrderOfStreams(const LaunchOrder& order) : order_(order) {}
  bool decide(const Stamp& earlier, const Actor&) const override {
    return earlier.operation == order_.operation ||
           operation_order().is_before(earlier.operation, order_.clock) ||
           is_learned(earlier, order_.clock);
  }

 private:
  const LaunchOrder& order_;
};

void note_range(Region& region, Address address, std::size_t nbytes, bool writes,
                const LaunchOrder& order) {
  const OrderOfStreams ordered(order);
  const Actor actor{order.operation, 0, 0, 0, 0};
  const Stamp* const raced =
      note_access(region.shadow(address), {address, nbytes}, actor, writes, Scope::weak, ordered);
  if (raced)
    throw Fault("a race: " + operation_order().describe(order.operation) +
                (writes ? " writes" : " reads") + " bytes that " + describe(*raced, actor) +
                " accessed, and nothing orders the two");
}

// The bytes in host memory. Accesses to device or pinned memory are recorded.
std::byte* find(Address address, std::size_t nbytes, bool writes, const LaunchOrder& order) {
  Region* const region = Memory::instance().region(address);
  if (!region) return reinterpret_cast<std::byte*>(address);
  if (address + nbytes > region->find(address).end)
    throw Fault("a copy of " + std::to_string(nbytes) + " bytes, which are in no block of memory");
  note_range(*region, address, nbytes, writes, order);
  return region->view(address);
}

void mark(Address to, std::size_t nbytes) {
  if (Region* const region = Memory::instance().region(to))
    mark_written(region->written(to), to, nbytes);
}

}  // namespace

void copy_bytes(Address to, Address from, std::size_t nbytes, const LaunchOrder& order) {
  const std::byte* const source = find(from, nbytes, false, order);
  std::memmove(find(to, nbytes, true, order), source, nbytes);
  Region* const read = Memory::instance().region(from);
  Region* const written = Memory::instance().region(to);
  if (!written) return;
  if (!read || is_written(read->written(from), from, nbytes)) return mark(to, nbytes);
  for (std::size_t i = 0; i < nbytes; ++i)
    if (is_written(read->written(from + i), from + i, 1)) mark(to + i, 1);
}

void read_bytes(std::byte* to, Address from, std::size_t nbytes, const LaunchOrder& order) {
  std::memcpy(to, find(from, nbytes, false, order), nbytes);
  const Region* const region = Memory::instance().region(from);
  if (region && !is_written(region->written(from), from, nbytes))
    throw Fault("a product reads bytes that nothing has written");
}

void write_bytes(Address to, const std::byte* from, std::size_t nbytes, const LaunchOrder& order) {
  std::memcpy(find(to, nbytes, true, order), from, nbytes);
  mark(to, nbytes);
}

void fill_bytes(Address to, unsigned char value, std::size_t nbytes, const LaunchOrder& order) {
  std::memset(find(to, nbytes, true, order), value, nbytes);
  mark(to, nbytes);
}

}  // namespace ringlet::emulated
