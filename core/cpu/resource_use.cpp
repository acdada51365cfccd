#include "ringlet/core/cpu/resource_use.h"

#include <sys/resource.h>

#include "ringlet/core/cpu/pages.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet {

ResourceUse resource_use() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const cpu::MappedTotal mapped = cpu::mapped_total();
  return {static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt), mapped.mappings,
          mapped.nbytes, threads_started,
          static_cast<std::uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw)};
}

}  // namespace ringlet
