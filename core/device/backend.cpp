#include "ringlet/core/device/backend.h"

#include <array>
#include <atomic>
#include <ostream>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet {
namespace {

std::array<DeviceBackend*, kDeviceTypes> backends{};

constexpr int kTypeShift = 16;
// each: type << kTypeShift | index
std::atomic<int> chosen_best{-1};
std::atomic<int> chosen_default{0};
thread_local int chosen_here = -1;  // this thread's; -1: none

int packed(Device device) { return static_cast<int>(device.type) << kTypeShift | device.index; }
Device unpacked(int packed) {
  return {static_cast<DeviceType>(packed >> kTypeShift), packed & ((1 << kTypeShift) - 1)};
}

void check_exists(Device device) {
  if (device.type == DeviceType::cpu) return;
  RINGLET_CHECK(device.index < backend(device.type).device_count(), "there is no device ", device);
}

}  // namespace

void ensure_registered() {
  [[maybe_unused]] static const bool once = (register_cpu(), register_cuda(), true);
}

void set_backend(DeviceType type, DeviceBackend* backend) {
  backends[static_cast<std::size_t>(type)] = backend;
}

bool has_backend(DeviceType type) {
  ensure_registered();
  const DeviceBackend* found = backends[static_cast<std::size_t>(type)];
  // A build with CUDA may run on a host without a GPU.
  return found && (type == DeviceType::cpu || found->device_count() > 0);
}

std::string no_device(DeviceType type) {
  ensure_registered();
  const DeviceBackend* found = backends[static_cast<std::size_t>(type)];
  const std::string why = found ? found->why_none() : "";
  return str("no ", type == DeviceType::cuda ? "CUDA" : "CPU", " device", why.empty() ? "" : ": ",
             why);
}

std::string without_link(Device to, Device from) {
  return str(
      to, " has no peer access to ", from,
      ": copies between such GPUs go through pinned memory of the host; `ringlet info` shows "
      "which read each other's");
}

DeviceBackend& backend(DeviceType type) {
  if (!has_backend(type)) fail(no_device(type));
  return *backends[static_cast<std::size_t>(type)];
}

MemoryStats memory_stats(Device device) { return backend(device.type).memory(device); }
void reset_peak_memory(Device device) { backend(device.type).reset_peak(device); }
void set_memory_limit(Device device, std::size_t nbytes) {
  backend(device.type).set_limit(device, nbytes);
}

Device Device::best() {
  if (const int chosen = chosen_best; chosen >= 0) return unpacked(chosen);
  return has_backend(DeviceType::cuda) ? Device{DeviceType::cuda, 0} : Device{};
}

void Device::set_best(Device device) {
  check_exists(device);
  chosen_best = packed(device);
}

Device device_of_rank(Device first, int rank) {
  if (first.type == DeviceType::cpu) return {first.type, first.index + rank};
  return {first.type, (first.index + rank) % backend(first.type).device_count()};
}

Device default_device() { return unpacked(chosen_here >= 0 ? chosen_here : chosen_default.load()); }
void set_default_device(Device device) {
  check_exists(device);
  chosen_default = packed(device);
}

DefaultDeviceGuard::DefaultDeviceGuard(Device device) {
  check_exists(device);
  before_ = std::exchange(chosen_here, packed(device));
}
DefaultDeviceGuard::~DefaultDeviceGuard() { chosen_here = before_; }

Device Device::parse(std::string_view text) {
  Device device;
  const auto colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  bool good = type == "cpu" || type == "cuda";
  if (type == "cuda") device.type = DeviceType::cuda;
  if (colon != std::string_view::npos) {
    device.index = parse_number<int>(text.substr(colon + 1)).value_or(-1);
    good = good && device.index >= 0 && device.index < 4096;
  }
  if (!good) fail_input("unknown device ", quote(text), "; expected cpu, cuda, cpu:N or cuda:N");
  return device;
}

std::string_view name(DeviceType type) { return type == DeviceType::cpu ? "cpu" : "cuda"; }

std::ostream& operator<<(std::ostream& out, Device device) {
  return out << name(device.type) << ':' << device.index;
}

}  // namespace ringlet
