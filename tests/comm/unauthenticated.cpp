// Unauthenticated clients at the rendezvous port: they get nothing, and they delay no rank.
#include <arpa/inet.h>
#include <dirent.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/comm/launch.h"
#include "ringlet/comm/membership.h"
#include "ringlet/comm/stores/handshake.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_protocol.h"
#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/core/base/error.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// Three ranks find each other and make a group with one barrier.
void rendezvous(int port, const Token& token) {
  static int round = 0;
  ++round;
  std::vector<std::thread> ranks;
  std::atomic<int> done{0};
  const auto find_each_other = [&](int rank) {
    const std::shared_ptr<TcpStore> store =
        join_tcp_store({.port = port, .token = token, .name = str("rank ", rank), .timeout = 60s});
    const Group group(store, rank, 3, {.timeout = 60s}, str("round ", round));
    group.barrier();
    ++done;
  };
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        find_each_other(rank);
      } catch (const Error& error) {
        MESSAGE(error.what());
      }
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK_EQ(done, 3);
}

Socket knock(int port) {
  std::string why;
  return connect_to("127.0.0.1", port, Clock::now() + 5s, why);
}

/// All bytes that the server sends until it closes the connection, or until `limit`.
struct Received {
  std::string bytes;
  bool closed = false;
};

Received listen_to(const Socket& socket, Clock::duration limit) {
  Received received;
  const auto deadline = Clock::now() + limit;
  char byte = 0;
  while (Clock::now() < deadline) {
    const ssize_t n = recv(socket.fd(), &byte, 1, 0);
    if (n > 0) {
      received.bytes += byte;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      received.closed = true;
      break;
    } else {
      std::this_thread::sleep_for(1ms);
    }
  }
  return received;
}

void send_some(const Socket& socket, const std::string& bytes) {
  send_until(socket, bytes, Clock::now() + 100ms);
}

std::string hello_signed_with(const Token& token) {
  return make_hello(token, /*id=*/0, random_bytes(kNonce));
}

/// Unauthenticated clients on separate threads, until the destructor.
class Siege {
 public:
  explicit Siege(std::function<void()> attack)
      : thread_([this, attack = std::move(attack)] {
          while (!stop_) attack();
        }) {}
  ~Siege() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("a connection without the token gets no byte") {
  const Token token = Token::random();
  const auto server = serve_tcp_store({.token = token});
  const std::string wrong = hello_signed_with(Token::random());
  std::string bent = hello_signed_with(token);
  bent.back() = static_cast<char>(bent.back() ^ 1);

  const auto opened = Clock::now();
  const Socket silent = knock(server->port()), half = knock(server->port());
  send_some(half, hello_signed_with(token).substr(0, 40));
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"no token", hello_signed_with(Token())},
           {"a wrong token", wrong},
           {"one wrong bit", bent},
           {"HTTP", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
           {"garbage", random_bytes(100'000)},
           {"messages without a hello", encode({.type = StoreVerb::get, .key = "address/0"})},
       }) {
    const std::string& what = name;  // clang 14 captures no structured binding
    CAPTURE(what);
    const Socket socket = knock(server->port());
    REQUIRE(socket);
    const auto begin = Clock::now();
    send_some(socket, bytes);
    const Received received = listen_to(socket, 5s);
    CHECK(received.closed);
    CHECK_EQ(received.bytes, "");
    CHECK(Clock::now() - begin < kHandshake);  // not by the deadline of those that wait
  }
  // Connections that have sent nothing wrong yet are closed by the deadline.
  for (const Socket* early : {&silent, &half}) {
    const Received received = listen_to(*early, 60s);
    const auto took = Clock::now() - opened;
    CHECK(received.closed);
    CHECK_EQ(received.bytes, "");
    CHECK(took >= kHandshake - 50ms);
  }
}

TEST_CASE("a hello that was recorded opens nothing") {
  const Token token = Token::random();
  const auto server = serve_tcp_store({.token = token});
  const std::string hello = hello_signed_with(token);
  const Socket socket = knock(server->port());
  send_some(socket, hello);
  const std::string challenge = receive_exactly(socket, kChallenge, Clock::now() + 2s);
  CHECK_EQ(challenge.size(), kChallenge);  // it only gets fresh numbers and their signature
  // Neither silence, nor an echo, nor a request gets it further.
  send_some(socket, challenge.substr(kNonce));
  send_some(socket, encode({.type = StoreVerb::join, .value = "rank 1"}));
  const Received received = listen_to(socket, 10s);
  CHECK(received.closed);
  CHECK_EQ(received.bytes, "");
}

TEST_CASE("a client speaks to no server that does not know the token") {
  const Token token = Token::random();
  const Socket listener = listen_at("127.0.0.1", 0);
  std::thread impostor([&] {
    pollfd entry{listener.fd(), POLLIN, 0};
    poll(&entry, 1, 10'000);
    const Socket socket = accept_from(listener);
    const std::string hello = receive_exactly(socket, kHello, Clock::now() + 5s);
    const std::string nonce = random_bytes(kNonce);
    send_some(socket, nonce + Token::random().sign(
                                  "server", hello.substr(kMagic.size() + kId, kNonce) + nonce));
    CHECK_EQ(receive_exactly(socket, 1, Clock::now() + 5s), "");
  });
  std::string message;
  try {
    join_tcp_store({.port = local_port(listener), .token = token, .timeout = 5s});
  } catch (const Error& error) {
    message = error.what();
  }
  impostor.join();
  CHECK_EQ(message, str("[store] 127.0.0.1:", local_port(listener),
                        ": it is no store of this job: its answer is not signed with the token"));
}

// Handshakes in turn, each with its deadline of 5 s, would take longer than a rendezvous may.
TEST_CASE("connections without the token keep no rank from its peers") {
  const Token token = Token::random();
  const auto server = serve_tcp_store({.token = token});
  const int port = server->port();
  const auto during = [&](const std::string& what, const std::function<void()>& attack) {
    CAPTURE(what);
    const Siege siege(attack);
    std::this_thread::sleep_for(50ms);
    for (int i = 0; i < 3; ++i) rendezvous(port, token);
  };

  during("clients that send nothing", [&] {
    const Socket socket = knock(port);
    std::this_thread::sleep_for(1ms);
  });
  during("clients without a token", [&] {
    const Socket socket = knock(port);
    send_some(socket, hello_signed_with(Token()));
    listen_to(socket, 1s);
  });
  during("clients with a wrong token", [&] {
    const Socket socket = knock(port);
    send_some(socket, hello_signed_with(Token::random()));
    listen_to(socket, 1s);
  });
  during("clients that send garbage", [&] {
    const Socket socket = knock(port);
    send_some(socket, random_bytes(1 << 16));
    listen_to(socket, 1s);
  });
  std::vector<Socket> trickling;
  std::size_t sent = 0;
  during("clients that send single bytes slowly", [&] {
    if (trickling.size() < 100) trickling.push_back(knock(port));
    const std::string hello = hello_signed_with(token);
    for (const Socket& socket : trickling) send_some(socket, hello.substr(sent % 70, 1));
    ++sent;
    std::this_thread::sleep_for(1ms);
  });

  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  constexpr std::size_t many = 1000;
  REQUIRE(files.rlim_max > 2 * many + 200);
  files.rlim_cur = std::max<rlim_t>(files.rlim_cur, 2 * many + 200);
  setrlimit(RLIMIT_NOFILE, &files);
  std::vector<Socket> crowd;
  for (std::size_t i = 0; i < many; ++i) crowd.push_back(knock(port));
  during("1,000 open connections, and new ones", [&] {
    crowd.erase(crowd.begin());
    crowd.push_back(knock(port));
  });
  // They got nothing, and after a full round the server keeps only a few of them.
  const auto alive = [&] {
    return std::count_if(crowd.begin(), crowd.end(), [](const Socket& socket) {
      char byte = 0;
      const ssize_t n = recv(socket.fd(), &byte, 1, 0);
      CHECK(n <= 0);
      return n < 0 && errno == EAGAIN;
    });
  };
  for (int i = 0; i < 3000 && alive() > 256; ++i) std::this_thread::sleep_for(10ms);
  CHECK(alive() <= 256);
}

#if defined(RINGLET_TESTS_GLOO)
TEST_CASE("unauthenticated clients do not join the connections between ranks") {
  constexpr int kRanks = 3;
  const std::shared_ptr<Store> store = make_memory_store();
  std::atomic<bool> done{false};
  std::thread clients([&] {
    const std::string place = store->get("world/address of rank 0", 20s);
    const int port = std::stoi(place.substr(place.find(' ')));
    std::vector<Socket> crowd;
    for (int i = 0; !done; ++i) {
      crowd.push_back(knock(port));
      const std::uint32_t rank = i % 2 == 0 ? 1 : 2;
      if (crowd.back())
        send_some(crowd.back(), make_hello(Token::random(), rank, random_bytes(kNonce)));
      if (i < 100) crowd.push_back(knock(port));
    }
  });
  std::vector<std::vector<Socket>> peers(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      peers[static_cast<std::size_t>(rank)] = connect_peers(
          {.store = store, .rank = rank, .size = kRanks, .timeout = 60s, .id = "world"},
          "127.0.0.1");
    });
  for (std::thread& rank : ranks) rank.join();
  done = true;
  clients.join();
  for (std::size_t a = 0; a < kRanks; ++a)
    for (std::size_t b = 0; b < kRanks; ++b) {
      CHECK_EQ(static_cast<bool>(peers[a][b]), a != b);
      if (a == b) continue;
      send_some(peers[a][b], str(a, b));
      CHECK_EQ(receive_exactly(peers[b][a], 2, Clock::now() + 20s), str(a, b));
    }
}

namespace {

/// The addresses at which this process listens.
std::vector<sockaddr_in> listening() {
  std::vector<sockaddr_in> found;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_in address{};
    int listens = 0;
    socklen_t length = sizeof(address), flag = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag) == 0 && listens != 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
        address.sin_family == AF_INET)
      found.push_back(address);
  }
  closedir(folder);
  return found;
}

}  // namespace

TEST_CASE("foreign connections to all ports of a forming gloo group neither end it nor enter it") {
  std::atomic<int> connected{0};
  std::list<Socket> crowd;
  // To gloo, the first bytes of a connection are a length and an operation.
  const Siege siege([&] {
    for (const sockaddr_in& address : listening()) {
      Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
        continue;
      ++connected;
      const std::string forged(256, connected % 2 == 0 ? '\xff' : '\1');
      send_some(socket, connected % 3 == 0 ? random_bytes(256) : forged);
      crowd.push_back(std::move(socket));
      if (crowd.size() > 200) crowd.pop_front();
    }
  });
  for (int round = 0; round < 20; ++round)
    launch(
        [](const Group& group) {
          const Tensor x = full({1000}, static_cast<double>(group.rank() + 1));
          for (int i = 0; i < 3; ++i) group.all_reduce(x, ReduceOp::max).wait();
          group.all_reduce(x).wait();
          CHECK(x.to_vector<float>() == std::vector<float>(1000, 9));
        },
        3, {.group = {.transport = TransportKind::gloo, .timeout = 60s}});
  CHECK(connected > 0);
}
#endif

TEST_CASE("without a token a server serves processes of its own user only") {
  if (geteuid() != 0) {
    MESSAGE("skipped: needs the right to become another user");
    return;
  }
  const auto server = serve_tcp_store({});
  const int port = server->port();
  const std::string hello = hello_signed_with(Token());
  const auto answer = [&] {
    const Socket socket = knock(port);
    send_some(socket, hello);
    return receive_exactly(socket, kChallenge, Clock::now() + 20s).size();
  };
  CHECK_EQ(answer(), kChallenge);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(setuid(65534) == 0 && answer() == 0 ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
}

TEST_CASE("without descriptors connections wait, not the ranks") {
  const Token token = Token::random();
  const auto server = serve_tcp_store({.token = token});
  const auto client = join_tcp_store({.port = server->port(), .token = token});
  const Socket idle = knock(server->port());
  // The server accepts after it has answered: by its second answer it has accepted the idle client.
  for (int i = 0; i < 2; ++i) client->add("counter", 1);
  Socket one(dup(0)), another(dup(0));
  const int next = dup(0);
  close(next);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit no_more{static_cast<rlim_t>(next), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &no_more) == 0);

  one.close();
  const Socket greeted = knock(server->port());  // the server gets a descriptor from the idle one
  const bool made_room = listen_to(idle, 60s).closed;
  send_some(greeted, hello_signed_with(token));
  const std::string challenge = receive_exactly(greeted, kChallenge, Clock::now() + 30s);
  another.close();
  const Socket waiting = knock(server->port());
  for (int i = 0; i < 100; ++i) client->add("counter", 1);

  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(made_room);
  CHECK_EQ(challenge.size(), kChallenge);
  send_some(waiting, "no hello");
  CHECK(listen_to(waiting, 60s).closed);
}

TEST_SUITE_END();
