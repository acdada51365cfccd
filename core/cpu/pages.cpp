#include "ringlet/core/cpu/pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <string>

#include "ringlet/core/cpu/resource_use.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::cpu {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;

std::atomic<std::uint64_t> all_mappings{0};
std::atomic<std::uint64_t> all_mapped_bytes{0};

void count_mapping(const Pages& pages) {
  if (!pages.data) return;
  madvise(pages.data, pages.nbytes, MADV_HUGEPAGE);
  ++all_mappings;
  all_mapped_bytes += pages.nbytes;
}

// The word in brackets: "always [madvise] never".
std::string chosen(const std::string& file) {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/" + file);
  for (std::string word; in >> word;)
    if (word.size() > 2 && word.front() == '[') return word.substr(1, word.size() - 2);
  return "";
}

// Newer systems have a setting for each size; "inherit" refers to the common one.
bool gives_huge(const std::string& file) {
  std::string word = chosen("hugepages-2048kB/" + file);
  if (word.empty() || word == "inherit") word = chosen(file);
  return !word.empty() && word != "never" && word != "deny";
}

}  // namespace

Pages map_private(std::size_t nbytes) {
  nbytes = (nbytes + kHuge - 1) & ~(kHuge - 1);
  // The system chooses the address: the pages before and after the aligned part are unmapped.
  const std::size_t more = nbytes + kHuge;
  void* found = mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return {};
  auto* begin = static_cast<std::byte*>(found);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) & (kHuge - 1);
  if (before > 0) munmap(begin, before);
  munmap(begin + before + nbytes, kHuge - before);
  const Pages pages{begin + before, nbytes, -1};
  count_mapping(pages);
  return pages;
}

Pages map_shared(std::size_t nbytes) {
  nbytes = (nbytes + kHuge - 1) & ~(kHuge - 1);
  const int fd = memfd_create("ringlet", MFD_CLOEXEC);
  if (fd < 0) return {};
  void* data = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(nbytes)) == 0)
    data = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(fd);
    errno = error;
    return {};
  }
  const Pages pages{static_cast<std::byte*>(data), nbytes, fd};
  count_mapping(pages);
  return pages;
}

void unmap(const Pages& pages) {
  munmap(pages.data, pages.nbytes);
  if (pages.fd >= 0) close(pages.fd);
}

HugePages huge_pages() { return {gives_huge("enabled"), gives_huge("shmem_enabled")}; }

}  // namespace ringlet::cpu

ringlet::ResourceUse ringlet::resource_use() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt), cpu::all_mappings,
          cpu::all_mapped_bytes, threads_started,
          static_cast<std::uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw)};
}
