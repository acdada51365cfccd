// What a type of device must offer besides kernels: memory, copies and a count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ringlet/core/device.h"
#include "ringlet/core/device_time.h"
#include "ringlet/core/stream.h"

namespace ringlet {

class DeviceRanks;

/// A piece of device memory; on a CPU of a process with peers, in a memfd that they can map.
struct Block {
  std::byte* data = nullptr;
  std::size_t nbytes = 0;     // usable bytes, >= what was asked for
  int fd = -1;                // descriptor of the mapping it lies in, -1 where there is none
  std::size_t fd_offset = 0;  // its place in that mapping
  void* owner = nullptr;      // the allocator's own bookkeeping
};

/// Counted since the program started, in bytes; `reserved` is what the system has given, `limit`
/// what may be allocated (0: no limit).
struct MemoryStats {
  std::size_t allocated = 0;
  std::size_t peak = 0;
  /// Of what is allocated: other forms of parameters that products keep (Storage::sidecar, mirror).
  std::size_t sidecars = 0;
  std::size_t sidecars_peak = 0;
  /// Beside what is allocated, of all devices of the type together: what threads keep for operands
  /// that kernels pack.
  std::size_t scratch = 0;
  /// Of what is reserved: what captured work uses, all graphs of the device together.
  std::size_t graphs = 0;
  std::size_t reserved = 0;
  std::size_t limit = 0;
  std::uint64_t allocations = 0;
  std::uint64_t system_allocations = 0;
};

/// Work that was captured; see core/graph.h.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Gives it to the device, behind what it was given before; does not wait.
  virtual void replay() = 0;
  /// Kernels, copies and the like.
  virtual std::size_t nodes() const = 0;
};

/// Bytes of a device on their way to the host; see core/host_copy.h.
class Download {
 public:
  virtual ~Download() = default;
  /// Waits until they have come; they stay as long as this lives.
  virtual const std::byte* wait() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual int device_count() const = 0;
  /// Why device_count() is 0, in the driver's words; empty where nothing is known.
  virtual std::string why_none() const { return ""; }
  virtual Block allocate(Device device, std::size_t nbytes) = 0;
  virtual void release(Device device, const Block& block) = 0;
  /// Copies between devices; one side is this backend's. The result is visible to the host
  /// when either side is a CPU.
  virtual void copy(void* to, Device to_device, const void* from, Device from_device,
                    std::size_t nbytes) = 0;
  /// From another device of the type, given to the stream of `to_device` alone: what orders it
  /// behind the work of `from_device` is the caller's business.
  virtual void fetch(void* to, Device to_device, const void* from, Device from_device,
                     std::size_t nbytes) {
    copy(to, to_device, from, from_device, nbytes);
  }
  /// Whether copies from `from` to `to`, another of the type, take a link between the two; else
  /// they go through memory of the host.
  virtual bool has_link(Device /*to*/, Device /*from*/) { return true; }
  /// "0000:3b:00.0", where the device is on its host, whatever a process calls it; empty where that
  /// is not known.
  virtual std::string bus_id(Device) const { return ""; }
  /// Waits for all work of the device, whoever gave it.
  virtual void synchronize(Device device) = 0;
  // These are of a device that never runs behind.
  /// The bytes as they are behind what this thread has given the device so far; does not wait.
  virtual std::unique_ptr<Download> start_download(Device device, const void* from,
                                                   std::size_t nbytes);
  /// See core/device_time.h.
  virtual bool runs_behind() const { return false; }
  virtual std::unique_ptr<DeviceTime> device_time(Device device);
  virtual void hold(Device, double /*seconds*/) {}
  /// See core/stream.h; null of a device that never runs behind.
  virtual std::unique_ptr<DeviceStream> make_stream(Device) { return nullptr; }
  virtual std::unique_ptr<DeviceEvent> make_event(Device) { return nullptr; }
  /// Where this thread's work for the device goes, a cudaStream_t on cuda. From then on the device
  /// is the thread's current one, for libraries that work on it, too.
  virtual void* stream(Device) { return nullptr; }
  /// Whether that is captured, by whatever thread.
  virtual bool is_captured(Device) { return false; }
  /// Ranks that share the device (core/device_ranks.h), of which one waits at most `seconds` for
  /// another. May be made in a capture. Null where the device type has none.
  virtual std::unique_ptr<DeviceRanks> make_ranks(Device device, int ranks, double seconds);
  virtual MemoryStats memory(Device device) const = 0;
  /// A sidecar of `nbytes` in this block comes into use, or (less than 0) goes.
  virtual void count_sidecar(Device device, const Block& block, std::ptrdiff_t nbytes) = 0;
  virtual void reset_peak(Device device) = 0;
  virtual void set_limit(Device device, std::size_t nbytes) = 0;

  /// Why nothing can be captured; empty where it can. The others are capture()'s.
  virtual std::string why_no_graphs(Device) const { return "it has no graphs"; }
  virtual void begin_capture(Device) {}
  /// Ends the capture, also where it throws.
  virtual std::unique_ptr<DeviceGraph> end_capture(Device) { return nullptr; }
  virtual void abandon_capture(Device) {}

  /// The descriptor by which other processes can map the block now; -1 where there is none.
  virtual int descriptor(Device, const Block&) const { return -1; }
  /// In a forked child, before anything else: what it inherited becomes its own copy, a page at a
  /// time as it writes.
  virtual void own_inherited_memory() {}
};

/// "no CUDA device", and why where that is known.
std::string no_device(DeviceType type);
/// The backend of a device type; throws no_device() where there is none.
Backend& backend(DeviceType type);
/// Whether there is a device of the type.
bool has_backend(DeviceType type);
void set_backend(DeviceType type, Backend* backend);

MemoryStats memory_stats(Device device);
void reset_peak_memory(Device device);
/// From now on all tensors of the device together take at most `nbytes` in this process; 0: no
/// limit. A tensor beyond it is an Error with what it takes, what is in use and the limit. Forked
/// ranks have the limit each for itself, and begin with nothing in use.
void set_memory_limit(Device device, std::size_t nbytes);

/// Fill the kernel tables and install the backend. Each is defined by its folder (cuda/ has a
/// stub where the toolkit is missing) and called once, from backend.cpp.
void register_cpu();
void register_cuda();
/// Runs both registrations on its first call.
void ensure_registered();

}  // namespace ringlet
