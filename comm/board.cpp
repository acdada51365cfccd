#include "ringlet/comm/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>

#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

using Words = std::array<std::uint64_t, sizeof(Call) / sizeof(std::uint64_t)>;

// Boards of this process by address, so that threads share one mapping.
std::mutex boards_mutex;
std::map<std::string, std::weak_ptr<Board>>& boards() {
  static auto* map = new std::map<std::string, std::weak_ptr<Board>>;
  return *map;
}

std::shared_ptr<Board> known(const std::shared_ptr<Board>& board) {
  const std::lock_guard lock(boards_mutex);
  boards()[board->address()] = board;
  return board;
}

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

std::shared_ptr<Board> Board::make(int size) {
  const int fd = memfd_create("ringlet board", MFD_CLOEXEC);
  RINGLET_CHECK(fd >= 0, "[board] no shared memory: ", std::strerror(errno));
  const std::size_t ranks = static_cast<std::size_t>(size);
  if (ftruncate(fd, static_cast<off_t>(ranks * sizeof(Seat) + ranks * ranks * sizeof(Lane))) != 0) {
    close(fd);
    fail("[board] no shared memory: ", std::strerror(errno));
  }
  return known(std::shared_ptr<Board>(new Board(fd, size, str(getpid(), " ", fd))));
}

std::shared_ptr<Board> Board::open(const std::string& address, int size) {
  int process = 0, fd = 0;
  std::istringstream(address) >> process >> fd;
  if (process == getpid()) {
    const std::lock_guard lock(boards_mutex);
    if (auto board = boards()[address].lock()) return board;
  }
  return std::shared_ptr<Board>(new Board(open_descriptor(process, fd), size, address));
}

Board::Board(int fd, int size, std::string address)
    : fd_(fd), size_(size), address_(std::move(address)) {
  const std::size_t ranks = static_cast<std::size_t>(size);
  nbytes_ = ranks * sizeof(Seat) + ranks * ranks * sizeof(Lane);
  void* data = mmap(nullptr, nbytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(fd);
    fail("[board] cannot map ", nbytes_, " bytes: ", std::strerror(error));
  }
  // A fresh memfd is zero, which is the initial value of all counters and flags.
  seats_ = static_cast<Seat*>(data);
  lanes_ = reinterpret_cast<Lane*>(seats_ + size);
}

Board::~Board() {
  munmap(seats_, nbytes_);
  close(fd_);
}

void Board::keep(std::shared_ptr<const void> object) const {
  const std::lock_guard lock(kept_mutex_);
  kept_.push_back(std::move(object));
}

void Board::post(int rank, const Call& call) const {
  Seat& seat = this->seat(rank);
  const auto words = std::bit_cast<Words>(call);
  seat.sequence.store(0);
  for (std::size_t i = 0; i < words.size(); ++i)
    seat.words[i].store(words[i], std::memory_order_release);
  seat.sequence.store(call.sequence);
}

bool Board::read_posted(int rank, Call& call) const {
  Seat& seat = this->seat(rank);
  const std::uint64_t sequence = seat.sequence.load();
  Words words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = seat.words[i].load(std::memory_order_acquire);
  call = std::bit_cast<Call>(words);
  return sequence != 0 && sequence == call.sequence && seat.sequence.load() == sequence;
}

void Board::ring(int rank) const {
  Seat& seat = this->seat(rank);
  if (!seat.asleep.load()) return;
  seat.doorbell.fetch_add(1);
  futex(seat.doorbell, FUTEX_WAKE, 1, nullptr);
}

void Board::sleep(int rank, std::uint32_t seen, Timeout slice) const {
  const timespec timeout{slice.count() / 1000, slice.count() % 1000 * 1000000};
  futex(seat(rank).doorbell, FUTEX_WAIT, seen, &timeout);
}

}  // namespace ringlet::comm
