// Memory allocation and copies.
#include <cstring>
#include <optional>

#include "../gpu/copy.h"
#include "calls.h"
#include "limits.h"

namespace {

using namespace ringlet::emulated;

Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// The region of device or pinned memory; null for pageable host memory.
Region* region_of(const void* pointer) { return Memory::instance().region(address_of(pointer)); }

bool is_pinned(const void* pointer) {
  const Region* const region = region_of(pointer);
  return region && region->owner() == kHost;
}

StreamOperation copy_of(void* to, const void* from, std::size_t nbytes) {
  PinnedBytes pinned;
  if (is_pinned(to))
    pinned = {static_cast<std::byte*>(to), nbytes, true};
  else if (is_pinned(from))
    pinned = {static_cast<std::byte*>(const_cast<void*>(from)), nbytes, false};
  return at_once(
      "cudaMemcpyAsync",
      [=](const LaunchOrder& order) {
        copy_bytes(address_of(to), address_of(from), nbytes, order);
      },
      pinned);
}

// Copies from pageable memory read it before the call returns; copies to it are synchronous.
cudaError_t copy(void* to, const void* from, std::size_t nbytes, cudaStream_t stream) {
  Call call;
  Stream* const on = call.streams().of(stream);
  if (nbytes == 0) return cudaSuccess;
  if (!region_of(from)) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    call.streams().enqueue(
        on, at_once("cudaMemcpyAsync",
                    [to, read = std::vector(bytes, bytes + nbytes)](const LaunchOrder& order) {
                      write_bytes(address_of(to), read.data(), read.size(), order);
                    }));
    return cudaSuccess;
  }
  call.streams().enqueue(on, copy_of(to, from, nbytes));
  if (region_of(to)) return cudaSuccess;
  if (on->capture) return note(cudaErrorStreamCaptureUnsupported);
  return note(call.streams().finish(call.lock(), on));
}

cudaError_t allocate(void** to, std::size_t nbytes, int owner) {
  Call call;
  if (const cudaError_t refused = refuse_beside_captures()) return note(refused);
  call.streams().delay_call(call.lock());
  Region& region = Memory::instance().of(owner);
  if (nbytes > kDeviceBytes || region.used() > kDeviceBytes - nbytes)
    return note(cudaErrorMemoryAllocation);
  *to = reinterpret_cast<void*>(region.allocate(nbytes));
  return cudaSuccess;
}

// Synchronises the device, as cudaFree does.
cudaError_t release(void* pointer) {
  if (!pointer) return cudaSuccess;
  Call call;
  if (const cudaError_t refused = refuse_beside_captures()) return note(refused);
  Region* const region = region_of(pointer);
  if (!region || !region->owns(address_of(pointer))) return note(cudaErrorInvalidValue);
  call.streams().delay_call(call.lock());
  const cudaError_t status = call.streams().finish_all(call.lock());
  region->release(address_of(pointer));
  return note(status);
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** to, std::size_t nbytes) {
  return allocate(to, nbytes, current_device());
}
cudaError_t cudaFree(void* pointer) { return release(pointer); }
cudaError_t cudaHostAlloc(void** to, std::size_t nbytes, unsigned) {
  return allocate(to, nbytes, kHost);
}
cudaError_t cudaFreeHost(void* pointer) { return release(pointer); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Call call;
  *total = kDeviceBytes;
  *free = kDeviceBytes - Memory::instance().of(current_device()).used();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t nbytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return copy(to, from, nbytes, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t nbytes,
                                cudaStream_t stream) {
  return copy(to, from, nbytes, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t nbytes, cudaStream_t stream) {
  const Call call;
  if (nbytes == 0) return cudaSuccess;
  call.streams().enqueue(
      call.streams().of(stream), at_once("cudaMemsetAsync", [=](const LaunchOrder& order) {
        fill_bytes(address_of(to), static_cast<unsigned char>(value), nbytes, order);
      }));
  return cudaSuccess;
}
}
