#include "ringlet/comm/transports/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <sstream>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

using Words = std::array<std::uint64_t, sizeof(Call) / sizeof(std::uint64_t)>;

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

int open_descriptor(int process, int fd) {
  const std::string path = str("/proc/", process, "/fd/", fd);
  const int own = open(path.c_str(), O_RDWR | O_CLOEXEC);
  RINGLET_CHECK(own >= 0, "[shm] cannot open ", path, " of another rank: ", std::strerror(errno));
  return own;
}

std::shared_ptr<Board> Board::join(const Membership& member) {
  // The boards that this process made, by process and descriptor, so that its threads share them.
  static std::mutex mutex;
  static auto* made = new std::map<std::string, std::weak_ptr<Board>>;
  std::shared_ptr<Board> board;
  if (member.rank == 0) {
    const int fd = memfd_create("ringlet board", MFD_CLOEXEC);
    RINGLET_CHECK(fd >= 0, "[board] no shared memory: ", std::strerror(errno));
    board.reset(new Board(fd, member.size));
    const std::string address = str(getpid(), " ", fd);
    {
      const std::lock_guard lock(mutex);
      (*made)[address] = board;
    }
    member.store->set(member.key("board"), address);
  } else {
    const std::string address = member.get("board", "rank 0's board");
    int process = 0, fd = 0;
    std::istringstream(address) >> process >> fd;
    const std::lock_guard lock(mutex);
    if (process == getpid()) board = (*made)[address].lock();
    if (!board) board.reset(new Board(open_descriptor(process, fd), member.size));
  }
  // Rank 0 may close its descriptor once all ranks have opened it.
  member.meet("opened the board", "all ranks on the board");
  return board;
}

Board::Board(int fd, int size) : fd_(fd), size_(size) {
  const std::size_t ranks = static_cast<std::size_t>(size);
  nbytes_ = ranks * sizeof(RankState) + ranks * ranks * sizeof(Channel);
  // A fresh memfd is zero, which is the initial value of all counters and flags.
  void* data = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(nbytes_)) == 0)
    data = mmap(nullptr, nbytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(fd);
    fail("[board] cannot map ", nbytes_, " bytes: ", std::strerror(error));
  }
  states_ = static_cast<RankState*>(data);
  channels_ = reinterpret_cast<Channel*>(states_ + size);
}

Board::~Board() {
  munmap(states_, nbytes_);
  close(fd_);
}

void Board::keep(std::shared_ptr<const void> object) const {
  const std::lock_guard lock(kept_mutex_);
  kept_.push_back(std::move(object));
}

void Board::post(int rank, const Call& call) const {
  auto& posted = state(rank).call;
  const auto words = std::bit_cast<Words>(call);
  posted[0].store(0);
  for (std::size_t i = 1; i < words.size(); ++i)
    posted[i].store(words[i], std::memory_order_release);
  posted[0].store(words[0]);
}

Call Board::posted(int rank) const {
  const auto& posted = state(rank).call;
  Words words{posted[0].load()};
  for (std::size_t i = 1; i < words.size(); ++i)
    words[i] = posted[i].load(std::memory_order_acquire);
  if (posted[0].load() != words[0]) return {};  // the rank changed it in between
  return std::bit_cast<Call>(words);
}

void Board::ring(int rank) const {
  RankState& sleeper = state(rank);
  if (!sleeper.asleep.load()) return;
  sleeper.doorbell.fetch_add(1);
  futex(sleeper.doorbell, FUTEX_WAKE, 1, nullptr);
}

void Board::sleep(int rank, std::uint32_t seen, Timeout slice) const {
  const timespec timeout{slice.count() / 1000, slice.count() % 1000 * 1000000};
  futex(state(rank).doorbell, FUTEX_WAIT, seen, &timeout);
}

}  // namespace ringlet::comm
