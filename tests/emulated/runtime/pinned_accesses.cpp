#include "pinned_accesses.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <cstring>

#include "../gpu/fault.h"
#include "calls.h"

namespace ringlet::emulated {
namespace {

constexpr std::size_t kPage = 4096;

void set_pages(const PinnedBytes& bytes, int protection) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data) / kPage * kPage;
  const auto end =
      (reinterpret_cast<std::uintptr_t>(bytes.data) + bytes.nbytes + kPage - 1) / kPage;
  mprotect(reinterpret_cast<void*>(begin), end * kPage - begin, protection);
}

bool overlap(const PinnedBytes& a, const PinnedBytes& b) {
  return a.data < b.data + b.nbytes && b.data < a.data + a.nbytes;
}

// FNV-1a, eight bytes at a time.
std::uint64_t digest_of(const PinnedBytes& bytes) {
  const std::byte* const data =
      Memory::instance().of(kHost).view(reinterpret_cast<Address>(bytes.data));
  std::uint64_t digest = 14695981039346656037u;
  for (std::size_t i = 0; i < bytes.nbytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i, std::min<std::size_t>(8, bytes.nbytes - i));
    digest = (digest ^ word) * 1099511628211u;
  }
  return digest;
}

// The innermost function of the program in the interrupted thread.
std::string place_of_host() {
  std::array<void*, 24> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  Dl_info program{}, found{};
  dladdr(reinterpret_cast<void*>(&digest_of), &program);
  for (int i = 3; i < count; ++i) {
    void* const frame = frames[static_cast<std::size_t>(i)];
    if (dladdr(frame, &found) == 0 || found.dli_fbase != program.dli_fbase) continue;
    const auto offset = static_cast<std::byte*>(frame) - static_cast<std::byte*>(found.dli_fbase);
    return found.dli_sname ? plain_name(found.dli_sname)
                           : std::string(found.dli_fname) + "+" + std::to_string(offset);
  }
  return "the program";
}

struct sigaction earlier_handler;

void on_segmentation_fault(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<Address>(info->si_addr);
  if (!Memory::instance().of(kHost).contains(address)) {
    sigaction(signal, &earlier_handler, nullptr);  // the access is repeated and reaches it
    return;
  }
  const Call call;
  pinned_accesses().touch(static_cast<std::byte*>(info->si_addr));
}

// Test frameworks install handlers of their own between tests.
void install_handler() {
  struct sigaction now;
  sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_sigaction == &on_segmentation_fault) return;
  earlier_handler = now;
  struct sigaction ours {};
  ours.sa_sigaction = &on_segmentation_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace

PinnedAccesses& pinned_accesses() {
  static auto* const accesses = new PinnedAccesses;
  return *accesses;
}

void PinnedAccesses::protect(const Access& access) {
  install_handler();
  set_pages(access.bytes, PROT_NONE);
}

void PinnedAccesses::add(const StreamOperation& copy, OperationOrder::Place place) {
  Access added{copy.name + " on stream " + std::to_string(place.stream), place, copy.pinned};
  for (Access& other : accesses_) {
    if (!overlap(other.bytes, added.bytes)) continue;
    if (added.bytes.writes) other.changes_are_fine = true;
    if (other.bytes.writes) added.changes_are_fine = true;
  }
  if (added.bytes.writes)
    protect(added);
  else
    added.digest = digest_of(added.bytes);
  accesses_.push_back(std::move(added));
}

void PinnedAccesses::end(const StreamClock& host) {
  const auto has_ended = [&](const Access& access) {
    return access.place.stream < host.size() && host[access.place.stream] >= access.place.number;
  };
  const auto first = std::stable_partition(
      accesses_.begin(), accesses_.end(), [&](const Access& access) { return !has_ended(access); });
  const std::vector<Access> ended(first, accesses_.end());
  accesses_.erase(first, accesses_.end());
  for (const Access& access : ended) {
    if (access.bytes.writes) {
      set_pages(access.bytes, PROT_READ | PROT_WRITE);
    } else if (!access.changes_are_fine && digest_of(access.bytes) != access.digest) {
      Streams::instance().fail(Fault("the host changes pinned memory that " + access.name +
                                     " reads, before it has waited for the copy"));
    }
  }
  if (ended.empty()) return;
  for (const Access& access : accesses_)
    if (access.bytes.writes) protect(access);
}

void PinnedAccesses::touch(std::byte* address) {
  const PinnedBytes touched{address, 1};
  const auto found = std::find_if(accesses_.begin(), accesses_.end(), [&](const Access& access) {
    return access.bytes.writes && overlap(access.bytes, touched);
  });
  set_pages(touched, PROT_READ | PROT_WRITE);
  if (found == accesses_.end()) return;
  Streams::instance().fail(Fault("the host uses pinned memory that " + found->name +
                                 " writes, before it has waited for the copy: " + place_of_host()));
  set_pages(found->bytes, PROT_READ | PROT_WRITE);
  accesses_.erase(found);
}

}  // namespace ringlet::emulated
