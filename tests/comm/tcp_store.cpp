// The TCP store's alarm: how the end of one rank reaches the other ranks.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <optional>
#include <stdexcept>
#include <thread>

#include "ringlet/comm/stores/tcp_protocol.h"
#include "tcp_job.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

/// A client that speaks the protocol itself.
Socket join(const Job& job, const std::string& name) {
  const auto deadline = Clock::now() + 60s;
  Socket socket = connect_to_store(job.options(name));
  send_until(socket, encode({.type = StoreVerb::join, .value = name}), deadline);
  const std::string done = encode({.type = StoreVerb::done});
  CHECK(receive_exactly(socket, done.size(), deadline) == done);
  return socket;
}

}  // namespace

TEST_CASE("an exception that ends a rank is no goodbye") {
  const Job job;
  const auto first = join_tcp_store(job.options("rank 0"));
  try {
    const auto second = join_tcp_store(job.options("rank 1"));
    throw std::runtime_error("the rank's own");
  } catch (const std::runtime_error&) {
  }
  CHECK(raised_within(*first));
  CHECK_EQ(first->cause(), first->culprit() + " ended by an exception");
}

TEST_CASE("the first cause reaches all ranks") {
  const Job job;
  const auto first = join_tcp_store(job.options("rank 0"));
  const auto second = join_tcp_store(job.options("rank 1"));
  second->raise("rank 1 met a NaN");
  first->raise("rank 0 met one, too");
  CHECK_EQ(first->cause(), "rank 1 met a NaN");
  CHECK_EQ(second->cause(), "rank 1 met a NaN");
  CHECK_EQ(first->culprit().find("rank 1 (pid "), 0);
}

TEST_CASE("a rank that joins when the others have left still gets their alarm") {
  const Job job;
  try {
    const auto first = join_tcp_store(job.options("rank 0"));
    throw std::runtime_error("the rank's own");
  } catch (const std::runtime_error&) {
  }
  const auto second = join_tcp_store(job.options("rank 1"));
  CHECK(raised_within(*second));
  CHECK(second->cause().ends_with(" ended by an exception"));
}

TEST_CASE("a client waits for its server, and says which one does not answer") {
  const Token token = Token::random();
  int port = 0;
  {
    const auto server = serve_tcp_store({.token = token});
    port = server->port();
  }
  const TcpStoreOptions options{.port = port, .token = token, .timeout = 150ms};
  CHECK_EQ(message_of([&] { join_tcp_store(options); }),
           str("[store] 127.0.0.1:", port, ": no answer within 0.15 s: Connection refused"));

  std::unique_ptr<TcpStoreServer> late;
  std::thread starting([&] {
    std::this_thread::sleep_for(100ms);
    late = serve_tcp_store({.port = port, .token = token});
  });
  TcpStoreOptions patient = options;
  patient.timeout = 10s;
  const auto client = join_tcp_store(patient);
  starting.join();
  CHECK_EQ(client->add("counter", 1), 1);
}

TEST_CASE("with another token, or none, a client is told what is wrong") {
  const Job job;
  for (const Token& token : {Token::random(), Token()}) {
    TcpStoreOptions options = job.options("rank 1");
    options.token = token;
    CHECK_EQ(message_of([&] { join_tcp_store(options); }),
             str("[store] 127.0.0.1:", options.port,
                 ": it closes the connection: its job token is another one (RINGLET_TOKEN)"));
  }
}

TEST_CASE("without a token the server stays on loopback") {
  const auto server = serve_tcp_store({.host = "localhost"});
  const auto client = join_tcp_store({.host = "localhost", .port = server->port()});
  CHECK_EQ(client->add("counter", 2), 2);
  for (const char* host : {"", "0.0.0.0", "192.0.2.1"})
    CHECK_THROWS_AS(serve_tcp_store({.host = host}), InputError);
  // With a token it listens at the given address, and an address of another host is an error.
  const auto everywhere = serve_tcp_store({.host = "", .token = Token::random()});
  CHECK(everywhere->port() > 0);
  CHECK_EQ(message_of([&] {
             serve_tcp_store({.host = "192.0.2.1", .port = 29500, .token = Token::random()});
           }),
           "cannot listen at 192.0.2.1:29500: Cannot assign requested address");
}

TEST_CASE("keys and values have a largest size") {
  const Job job;
  const auto client = join_tcp_store(job.options("rank 0"));
  CHECK_THROWS_AS(client->set(std::string(4097, 'k'), ""), Error);
  CHECK_THROWS_AS(client->set("key", std::string((1 << 20) + 1, 'v')), Error);
  client->set(std::string(4096, 'k'), std::string(1 << 20, 'v'));
  CHECK_EQ(client->get(std::string(4096, 'k'), 60s).size(), 1 << 20);
}

TEST_CASE("the values of a store have a largest size") {
  const Job job;
  const auto client = join_tcp_store(job.options("rank 0"));
  const std::string value((1 << 20) - 3, 'v');
  for (int i = 0; i < 256; ++i) client->set(str(100 + i), value);
  CHECK_THROWS_WITH_AS(client->set("key", ""), "[store] the store is full: 268435456 bytes", Error);
  CHECK_THROWS_AS(client->get("key", 0ms), Error);
  client->set("100", "");  // a shorter value makes room
  client->set("key", "value");
  CHECK_EQ(client->get("key", 60s), "value");
}

TEST_CASE("a client that does not read its answers is lost") {
  const Job job;
  const auto client = join_tcp_store(job.options("rank 0"));
  client->set("key", std::string(1 << 20, 'v'));
  const Socket deaf = join(job, "rank 1");
  for (int i = 0; i < 200; ++i)
    send_until(deaf, encode({.type = StoreVerb::get, .key = "key"}), Clock::now() + 1s);
  CHECK(raised_within(*client));  // the server writes 64 MiB meanwhile
  CHECK_EQ(client->cause(), "rank 1 does not read what it asked for");
}

TEST_CASE("a get that timed out is not answered later") {
  const Job job;
  const auto client = join_tcp_store(job.options("rank 0"));
  const Socket other = join(job, "rank 1");
  const auto get = [&](std::uint64_t id, std::int64_t number) {
    const std::string bytes =
        encode({.type = StoreVerb::get, .id = id, .number = number, .key = "key"});
    send_until(other, bytes, Clock::now() + 1s);
  };
  for (std::uint64_t id = 1; id < 5; ++id) get(id, 0);
  get(5, 10'000);
  send_until(other, encode({.type = StoreVerb::add, .id = 6}), Clock::now() + 1s);
  const std::string counted = encode({.type = StoreVerb::done, .id = 6});
  CHECK(receive_exactly(other, counted.size(), Clock::now() + 60s) == counted);
  client->set("key", "value");
  const std::string only = encode({.type = StoreVerb::done, .id = 5, .value = "value"});
  CHECK(receive_exactly(other, only.size(), Clock::now() + 60s) == only);
}

TEST_CASE("a server that cannot go on says why") {
  const Job job;
  const auto client = join_tcp_store(job.options("rank 0"));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{2, before.rlim_max};  // poll() refuses a longer list
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  message_of([&] { client->add("counter", 1); });  // wakes the server up if it sleeps
  const bool raised = raised_within(*client);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(raised);
  CHECK_EQ(client->cause(),
           str("the store at port ", job.server->port(), ": [store] poll: Invalid argument"));
  CHECK_EQ(message_of([&] { client->set("key", "value"); }), client->cause());
  CHECK(job.server->wait_for_goodbyes(1s));  // no client is left that could say one
}

TEST_SUITE_END();
