#include "ringlet/comm/transports/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

Mapping::Mapping(const Membership& member, int rank, int process, int fd, bool writable) {
  const std::string path = str("/proc/", process, "/fd/", fd);
  // A process may be denied its own descriptors in /proc (prctl(2), PR_SET_DUMPABLE).
  const Socket own(process == getpid() ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
                                       : open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (const int why = errno; !own) {
    const std::string what = str(path, " of rank ", member.name_of(rank), ": ", strerror(why));
    if (process == getpid() || why == EMFILE || why == ENFILE) fail("[shm] cannot open ", what);
    member.end_late("[shm] a rank has ended or denies its memory: " + what);
  }
  struct stat status {};
  if (fstat(own.fd(), &status) == 0) nbytes_ = static_cast<std::size_t>(status.st_size);
  data_ = mmap(nullptr, nbytes_, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
               own.fd(), 0);
  RINGLET_CHECK(data_ != MAP_FAILED, "[shm] cannot map ", nbytes_, " bytes of rank ",
                member.name_of(rank), ": ", std::strerror(errno));
}

Mapping::~Mapping() { munmap(data_, nbytes_); }

std::byte* Mapping::at(std::size_t offset, std::size_t nbytes) const {
  RINGLET_CHECK(offset <= nbytes_ && nbytes <= nbytes_ - offset, "[shm] bytes [", offset, ", ",
                offset + nbytes, ") lie outside a mapping of ", nbytes_);
  return static_cast<std::byte*>(data_) + offset;
}

}  // namespace ringlet::comm
