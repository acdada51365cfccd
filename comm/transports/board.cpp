#include "ringlet/comm/transports/board.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <sstream>

#include "ringlet/comm/stores/socket.h"
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

std::size_t Board::memory_size(int size) {
  const auto ranks = static_cast<std::size_t>(size);
  return ranks * sizeof(RankState) + ranks * ranks * sizeof(Channel) + ranks * kStage;
}

Board::Board(const Membership& member, int process, int fd)
    : size_(member.size),
      memory_(member, 0, process, fd, /*writable=*/true),
      states_(reinterpret_cast<RankState*>(memory_.at(0, memory_size(size_)))),
      channels_(reinterpret_cast<Channel*>(states_ + size_)),
      stages_(reinterpret_cast<std::byte*>(channels_ + size_ * size_)) {}

std::shared_ptr<Board> Board::join(const Membership& member) {
  Socket made;  // closed when all ranks have the memory
  if (member.rank == 0) {
    static std::atomic<int> boards{0};  // with it, no other board has this one's name
    made = Socket(memfd_create("ringlet board", MFD_CLOEXEC));
    // Fresh memory is zero, which is the initial value of all counters and flags.
    const auto nbytes = static_cast<off_t>(memory_size(member.size));
    RINGLET_CHECK(made && ftruncate(made.fd(), nbytes) == 0, "[board] no shared memory of ", nbytes,
                  " bytes: ", std::strerror(errno));
    member.store->set(member.key("board"), str(getpid(), ' ', made.fd(), ' ', ++boards));
  }
  const std::string name = member.get("board", str("the board of rank ", member.name_of(0)));
  int process = 0, fd = 0;
  std::istringstream(name) >> process >> fd;
  static std::mutex mutex;
  static auto* boards = new std::map<std::string, std::weak_ptr<Board>>;  // of this process
  std::shared_ptr<Board> board;
  {
    const std::lock_guard lock(mutex);
    std::erase_if(*boards, [](const auto& named) { return named.second.expired(); });
    std::weak_ptr<Board>& known = (*boards)[name];
    if (!(board = known.lock())) known = board = std::make_shared<Board>(member, process, fd);
  }
  member.barrier("opened the board", "all ranks on the board");
  return board;
}

bool Board::has_own_processor(int rank) const {
  const int its = state(rank).processor.load(std::memory_order_relaxed);
  int users = 0;
  for (int other = 0; other < size_; ++other)
    users += state(other).processor.load(std::memory_order_relaxed) == its;
  return users == 1;
}

void Board::keep(std::shared_ptr<const void> object) const {
  const std::lock_guard lock(kept_mutex_);
  kept_.push_back(std::move(object));
}

std::shared_ptr<void> Board::shared(const std::function<std::shared_ptr<void>()>& make) const {
  const std::lock_guard lock(kept_mutex_);
  if (!shared_) shared_ = make();
  return shared_;
}

void Board::post(int rank, const Call& call) const {
  auto& posted = state(rank).call;
  const auto words = std::bit_cast<Words>(call);
  posted[0].store(0, std::memory_order_release);
  for (std::size_t i = 1; i < words.size(); ++i)
    posted[i].store(words[i], std::memory_order_release);
  posted[0].store(words[0], std::memory_order_release);
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
