#include "programs.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "ringlet/comm/launch.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/core/base/error.h"
#include "ringlet/train/data/draws.h"

namespace ringlet::drill {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using comm::Group;
using comm::TransportKind;

enum class Mishap : std::uint8_t { none, caught, thrown, killed, stopped, foreign };
constexpr std::array<const char*, 6> kMishaps{"none",   "caught",  "thrown",
                                              "killed", "stopped", "foreign"};
constexpr auto kLongest = 120s;  // of a program
constexpr const char* kWrong = "wrong result";

/// The same draws on every rank.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

 private:
  std::mt19937_64 random_;
};

struct Program {
  std::uint64_t seed;
  TransportKind transport;
  int ranks;
  Mishap mishap;
  int culprit;
  int at;  // the step of the mishap
  int steps;

  bool of_threads() const { return transport == TransportKind::thread; }
  /// Every rank ends without an error.
  bool survives() const {
    return mishap == Mishap::none || mishap == Mishap::caught || mishap == Mishap::foreign;
  }
};

Program draw_program(std::uint64_t seed, const std::vector<TransportKind>& transports) {
  Draw draw(seed);
  Program program{
      .seed = seed,
      .transport =
          transports[static_cast<std::size_t>(draw.below(static_cast<int>(transports.size())))],
      .ranks = 2 + draw.below(4),
      .mishap = {},
      .culprit = 0,
      .at = 0,
      .steps = 10 + draw.below(30)};
  // A thread can throw alone, and has no store that others reach.
  program.mishap = static_cast<Mishap>(draw.below(program.of_threads() ? 3 : 6));
  program.culprit = draw.below(program.ranks);
  program.at = draw.below(program.steps);
  return program;
}

/// Element i of a rank's tensor in a step; sums over ranks are exact.
float element(int rank, std::int64_t i, int step) {
  return static_cast<float>((rank * 31 + i * 7 + step * 3) % 41);
}

Tensor filled(std::int64_t n, int rank, int step) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = element(rank, i, step);
  return tensor(values, {n});
}

/// One rank's run of a program.
class Rank {
 public:
  Rank(const Program& program, const Group& world)
      : program_(program), world_(world), draw_(program.seed + 1) {}

  void run() {
    std::vector<int> all(static_cast<std::size_t>(world_.size()));
    std::iota(all.begin(), all.end(), 0);
    Group part = world_;
    std::vector<int> members = all;
    for (step_ = 0; step_ < program_.steps; ++step_) {
      if (step_ == program_.at) strike(all);
      if (draw_.below(6) == 0) {  // a subgroup for the steps that follow, or the world again
        finish();
        members = draw_members(all);
        part = members.size() == all.size() ? world_ : world_.subgroup(members);
      }
      call(part, members);
      if (draw_.below(3) == 0) finish();
    }
    finish();
    world_.barrier();
  }

 private:
  struct Pending {
    comm::Work work;
    std::function<void()> check;
  };

  std::vector<int> draw_members(const std::vector<int>& all) {
    std::vector<int> members;
    for (const int rank : all)
      if (draw_.below(3) > 0) members.push_back(rank);
    return members.size() < 2 ? all : members;
  }

  void finish() {
    for (const Pending& pending : std::exchange(pending_, {})) {
      pending.work.wait();
      pending.check();
    }
  }

  void expect(const Tensor& found, const std::function<float(std::int64_t)>& expected,
              const char* what) const {
    const std::vector<float> values = found.to_vector();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float value = expected(static_cast<std::int64_t>(i));
      RINGLET_CHECK(values[i] == value, kWrong, " of ", what, " in step ", step_, " on rank ",
                    world_.rank(), ": element ", i, " is ", values[i], ", expected ", value);
    }
  }

  /// One call of a group of `members`, ranks of the world. Other ranks only draw.
  void call(const Group& group, const std::vector<int>& members) {
    const int op = draw_.below(7), root = draw_.below(1 << 20), tag = draw_.below(3);
    const std::int64_t lengths[] = {0, 1, 17, 1000, 70000};
    const std::int64_t n = lengths[draw_.below(5)];
    const int me = world_.rank(), size = static_cast<int>(members.size()), step = step_;
    if (group.size() != size) return;
    const int rank = group.rank();
    const auto sum = [members, step](std::int64_t i) {
      float total = 0;
      for (const int member : members) total += element(member, i, step);
      return total;
    };
    if (op == 0) {
      const Tensor x = filled(n, me, step);
      pending_.push_back({group.all_reduce(x), [=, this] { expect(x, sum, "all_reduce"); }});
    } else if (op == 1) {
      const comm::Pieces pieces = comm::even_pieces(n, size);
      const auto [offset, count] = pieces[static_cast<std::size_t>(rank)];
      const Tensor out = empty({n}), mine = filled(n, me, step).slice(offset, offset + count);
      const auto expected = [=](std::int64_t i) {
        std::size_t owner = 0;
        while (i >= pieces[owner].offset + pieces[owner].count) ++owner;
        return element(members[owner], i, step);
      };
      pending_.push_back({group.all_gather(out, mine, pieces),
                          [=, this] { expect(out, expected, "all_gather"); }});
    } else if (op == 2) {
      const comm::Pieces pieces = comm::even_pieces(n, size);
      const auto [offset, count] = pieces[static_cast<std::size_t>(rank)];
      const Tensor out = empty({count});
      const auto expected = [=, begin = offset](std::int64_t i) { return sum(begin + i); };
      pending_.push_back({group.reduce_scatter(out, filled(n, me, step), pieces),
                          [=, this] { expect(out, expected, "reduce_scatter"); }});
    } else if (op == 3) {
      const Tensor x = filled(n, me, step);
      const int from = members[static_cast<std::size_t>(root % size)];
      const auto expected = [=](std::int64_t i) { return element(from, i, step); };
      pending_.push_back(
          {group.broadcast(x, root % size), [=, this] { expect(x, expected, "broadcast"); }});
    } else if (op == 4) {
      const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
      const Tensor out = filled(n, me, step), in = empty({n});
      const int from = members[static_cast<std::size_t>(previous)];
      const auto expected = [=](std::int64_t i) { return element(from, i, step); };
      pending_.push_back({group.send(out, next, tag), [] {}});
      pending_.push_back(
          {group.recv(in, previous, tag), [=, this] { expect(in, expected, "recv"); }});
    } else if (op == 5) {
      group.barrier();
    } else {
      const std::vector<std::string> all = group.all_gather_bytes(str(me, '-', step));
      for (int i = 0; i < size; ++i)
        RINGLET_CHECK(all[static_cast<std::size_t>(i)] ==
                          str(members[static_cast<std::size_t>(i)], '-', step),
                      kWrong, " of all_gather_bytes in step ", step);
    }
  }

  void strike(const std::vector<int>& all) {
    const bool mine = world_.rank() == program_.culprit;
    if (program_.mishap == Mishap::caught) return catch_one(all);
    if (!mine) return;
    if (program_.mishap == Mishap::thrown) fail("the mishap");
    if (program_.mishap == Mishap::killed) std::raise(SIGKILL);
    if (program_.mishap == Mishap::stopped) std::raise(SIGSTOP);
  }

  // An exception ends a subgroup with a transfer and a collective in flight, and is caught.
  void catch_one(const std::vector<int>& all) {
    const int culprit = program_.culprit, next = (culprit + 1) % world_.size();
    const bool mine = world_.rank() == culprit;
    const Tensor sum = filled(100, world_.rank(), step_), sent = filled(100, culprit, step_);
    try {
      const Group part = world_.subgroup(all);
      const comm::Work work = mine ? part.all_reduce(sum) : comm::Work();
      if (mine) part.send(sent, next);
      if (mine) fail("caught");
      world_.barrier();
      const Tensor received = empty({100});
      if (world_.rank() == next) {
        part.recv(received, culprit).wait();
        expect(
            received, [&](std::int64_t i) { return element(culprit, i, step_); }, "recv");
      }
      part.all_reduce(sum).wait();
    } catch (const Error&) {
      if (!mine) throw;
      world_.barrier();
    }
    if (mine) return;
    const auto expected = [&](std::int64_t i) {
      float total = 0;
      for (const int rank : all) total += element(rank, i, step_);
      return total;
    };
    expect(sum, expected, "all_reduce");
  }

  const Program& program_;
  const Group& world_;
  Draw draw_;
  int step_ = 0;
  std::vector<Pending> pending_;
};

/// Memory that a program's processes share.
struct Shared {
  std::atomic<int> port;  // of the store; 0: not listening yet
  std::atomic<int> ended;
  char message[4000];
};

Shared& make_shared_memory() {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  RINGLET_CHECK(memory != MAP_FAILED, "[drill] no shared memory");
  return *new (memory) Shared{};
}

/// Keeps a store, and connects to it with other tokens and with random bytes, until it is killed.
[[noreturn]] void serve_and_intrude(Shared& shared, const comm::Token& token, std::uint64_t seed) {
  const auto server = comm::serve_tcp_store({.token = token});
  shared.port = server->port();
  for (std::mt19937_64 random(seed);;) {
    std::string why, bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const comm::Deadline soon = Clock::now() + 100ms;
    const comm::Socket socket = comm::connect_to("127.0.0.1", server->port(), soon, why);
    if (socket) comm::send_until(socket, bytes, soon);
    if (random() % 8 == 0) try {
        comm::join_tcp_store({.port = server->port(), .token = comm::Token::random()});
      } catch (const Error&) {  // as it must be
      }
  }
}

void run_ranks(const Program& program, Shared& shared, const comm::Token& token) {
  const comm::GroupOptions options{.transport = program.transport,
                                   .timeout = program.survives() ? 60s : 3s};
  const auto rank_main = [&](const Group& world) {
    if (program.mishap != Mishap::foreign) return Rank(program, world).run();
    while (shared.port == 0) std::this_thread::sleep_for(1ms);
    const std::shared_ptr<comm::Store> store = comm::join_tcp_store(
        {.port = shared.port, .token = token, .name = str("rank ", world.rank())});
    Rank(program, Group(store, world.rank(), world.size(), options)).run();
  };
  comm::launch(rank_main, program.ranks,
               {.ranks = program.of_threads() ? comm::Ranks::threads : comm::Ranks::processes,
                .group = options});
}

/// Runs in a process of its own group, which may be killed as a whole.
[[noreturn]] void run_job(const Program& program, Shared& shared) {
  setpgid(0, 0);
  const comm::Token token = comm::Token::random();
  const pid_t server = program.mishap == Mishap::foreign ? fork() : -1;
  if (server == 0) serve_and_intrude(shared, token, program.seed);
  std::string message;
  try {
    run_ranks(program, shared, token);
  } catch (const std::exception& error) {
    message = error.what();
  }
  message.copy(shared.message, sizeof(shared.message) - 1);
  shared.ended = 1;
  if (server > 0) kill(server, SIGKILL);
  _exit(0);
}

/// Empty, or the promise that was not kept.
std::string verdict(const Program& program, bool ended, const std::string& message) {
  if (!ended) return fmt::format("it did not end within {} s", kLongest.count());
  if (message.find(kWrong) != message.npos) return message;
  if (program.survives()) return message;
  if (message.empty()) return "no rank has noticed the mishap";
  const std::string named =
      program.mishap == Mishap::thrown ? "the mishap" : str("rank ", program.culprit);
  return message.find(named) == message.npos && program.mishap != Mishap::stopped
             ? str("expected '", named, "' in: ", message)
             : "";
}

std::string run_program(const Program& program) {
  Shared& shared = make_shared_memory();
  const pid_t job = fork();
  RINGLET_CHECK(job >= 0, "[drill] cannot fork");
  if (job == 0) run_job(program, shared);
  const auto deadline = Clock::now() + kLongest;
  while (waitpid(job, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      kill(-job, SIGKILL);
      waitpid(job, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(2ms);
  }
  const std::string wrong = verdict(program, shared.ended == 1, shared.message);
  munmap(&shared, sizeof(shared));
  return wrong;
}

}  // namespace

int run_programs(const Programs& programs) {
  const auto end = Clock::now() + programs.time;
  std::map<std::string, int> done;
  int failed = 0;
  std::uint64_t number = programs.first;
  for (; number == programs.first || Clock::now() < end; ++number) {
    const Program program =
        draw_program(train::mix64(programs.seed, 0, number), programs.transports);
    const char* const mishap = kMishaps[static_cast<std::size_t>(program.mishap)];
    const std::string wrong = run_program(program);
    ++done[mishap];
    if (wrong.empty()) continue;
    ++failed;
    fmt::print("program {}: {}, {} ranks, {}, rank {} in step {} of {}: {}\n", number,
               name(program.transport), program.ranks, mishap, program.culprit, program.at,
               program.steps, wrong);
    std::fflush(stdout);
  }
  for (const auto& [mishap, count] : done) fmt::print("{} {}, ", count, mishap);
  fmt::print("{} programs, {} failed\n", number - programs.first, failed);
  return failed;
}

}  // namespace ringlet::drill
