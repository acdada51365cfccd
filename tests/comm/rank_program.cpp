// A program that a launcher starts on every rank, for tests. It joins the store that its
// environment names, meets the other ranks there, then acts by its arguments.
//
//   meet                    prints its rank and ends
//   alarm                   when all ranks have met, raises the alarm, and ends 0.1 s later
//   exit RANK CODE          that rank ends with CODE, its peers wait for it
//   throw RANK              that rank ends by an exception
//   kill RANK [ATTEMPTS]    that rank kills itself (in the first ATTEMPTS attempts only)
//   stop RANK               that rank stops (SIGSTOP)
//   sleep                   waits for ever
//   group                   makes a Group by init_from_env() and adds up all ranks' numbers
//   regroup RANKS kill|stop|throw [TRANSPORT]
//                           the first of these ranks ends so between two sums; the others go on in
//                           the same processes with a smaller world, where the next rank ends
//   rejoin RANK [FILE]      that rank kills itself, in a loop that calls regroup_from_env(); the
//   ranks
//                           end when its successor has joined. With FILE they end when that exists:
//                           the successor makes it, then kills itself before it joins
//   early RANK before|after|apart [TRANSPORT] [SECONDS]
//                           that rank ends with 0 before it joins the group, or after two sums; its
//                           peers start a third ("apart": they do not, use the store SECONDS later,
//                           by default 1, and end)
//   nccl [RANK kill|stop]   all ranks share one GPU and sum there as on a CPU, too; then that rank
//                           kills or stops itself while its peers continue, and wait 10 s
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/parallel.h"

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

constexpr auto kPatience = 60s;

void act(const std::vector<std::string>& arguments, const Environment& here, TcpStore& store) {
  const std::string& what = arguments.at(0);
  if (what == "meet") return;
  if (what == "alarm") {
    store.add("ranks that met", 1);
    while (store.add("ranks that met", 0) < here.world_size) std::this_thread::yield();
    store.raise("its connection is broken");
    return std::this_thread::sleep_for(100ms);
  }
  const bool me = arguments.size() > 1 && std::stoi(arguments[1]) == here.rank;
  if (what == "exit" && me) {
    std::cerr << "about to fail\nwith " << arguments.at(2) << "\n";
    std::_Exit(std::stoi(arguments[2]));
  }
  if (what == "throw" && me) fail("rank ", here.rank, " has its reasons");
  if (what == "kill" && me) {
    const int attempts = arguments.size() > 2 ? std::stoi(arguments[2]) : 1000;
    if (here.restart_count < attempts) ::raise(SIGKILL);
  }
  if (what == "stop" && me) ::raise(SIGSTOP);
  if (what == "kill" && arguments.size() > 2 && here.restart_count >= std::stoi(arguments[2]))
    return;
  store.get("what never comes", kPatience);
}

void add_up() {
  const Group world = init_from_env({.timeout = kPatience, .on_note = [](const std::string& line) {
                                       std::cerr << line << std::endl;
                                     }});
  const Tensor sum = tensor({static_cast<float>(world.rank()), 1.0f});
  world.all_reduce(sum).wait();
  const std::vector<float> values = sum.to_vector<float>();
  std::cout << "rank " << world.rank() << ": the sum is " << values[0] << " over " << values[1]
            << ", " << name(world.transport({})) << ", " << Device::best() << " with "
            << threads_per_device() << " threads" << std::endl;
}

/// A killed rank that is started anew waits until the launcher ends it.
void never_join_again() {
  while (Environment::read().joins) std::this_thread::sleep_for(kPatience);
}

void regroup(const std::vector<std::string>& arguments) {
  std::istringstream text(arguments.at(1));
  std::vector<std::string> ending;
  for (std::string rank; std::getline(text, rank, ',');) ending.push_back(rank);
  const TransportKind transport =
      arguments.size() > 3 ? parse_transport(arguments[3]) : TransportKind::automatic;
  const std::string me = environment_variable("RANK").value_or("0");
  never_join_again();
  std::size_t worlds = 0;
  const auto rank_main = [&](const Group& world) {
    const bool ends = worlds < ending.size() && ending[worlds] == me;
    const bool last = worlds++ == ending.size();
    const Tensor sum = ones({100});
    world.all_reduce(sum).wait();
    std::cout << "rank " << me << ": the sum is " << sum.to_vector<float>()[0] << ", now rank "
              << world.rank() << std::endl;
    if (last) return;
    world.all_reduce(sum).wait();  // no rank ends before all have printed
    if (ends && arguments.at(2) == "kill") ::raise(SIGKILL);
    if (ends && arguments[2] == "stop") ::raise(SIGSTOP);
    RINGLET_CHECK(!ends, "has its reasons");
    for (;;) world.all_reduce(sum).wait();
  };
  const Timeout timeout = arguments.at(2) == "stop" ? 3s : kPatience;
  run_from_env(rank_main, {.transport = transport, .timeout = timeout}, /*regroups=*/true);
}

/// Rank 2 is killed; rank 1 has enough then, and ends in order while the others form a world.
void leave() {
  const Environment here = Environment::read();
  never_join_again();
  bool first = true;
  const auto rank_main = [&](const Group& world) {
    const bool is_first = std::exchange(first, false);
    const Tensor sum = ones({100});
    try {
      world.all_reduce(sum).wait();
      std::cout << "rank " << here.rank << ": the sum is " << sum.to_vector<float>()[0]
                << std::endl;
      if (!is_first) return;
      if (here.rank == 2) ::raise(SIGKILL);
      for (;;) world.all_reduce(sum).wait();
    } catch (const Error&) {
      if (here.rank != 1) throw;
    }
  };
  run_from_env(rank_main, {.timeout = kPatience}, /*regroups=*/true);
}

void rejoin(const std::vector<std::string>& arguments) {
  const Environment here = Environment::read();
  const bool dies = std::stoi(arguments.at(1)) == here.rank && !here.joins;
  const std::string file = arguments.size() > 2 ? arguments[2] : "";
  if (here.joins && !file.empty()) {
    std::ofstream(file) << here.rank;
    ::raise(SIGKILL);
  }
  std::optional<Group> world = init_from_env({.timeout = kPatience});
  for (bool first = !here.joins; first || world->size() < here.world_size; first = false) {
    try {
      for (float grows = 0; grows == 0;) {
        const auto of_first = [&](bool value) { return world->rank() == 0 && value ? 1.0f : 0.0f; };
        const Tensor sum =
            tensor({1.0f, of_first(rank_waits(*world)), of_first(std::filesystem::exists(file))});
        world->all_reduce(sum).wait();
        if (dies) ::raise(SIGKILL);
        grows = sum.to_vector<float>()[1];
        if (sum.to_vector<float>()[2] > 0) return;
      }
    } catch (const Error&) {
      if (!world->store().raised()) throw;
    }
    world = regroup_from_env(*world);
    RINGLET_CHECK(world, "the job has ended");
  }
  const Tensor sum = ones({100});
  world->all_reduce(sum).wait();
  std::cout << "rank " << here.rank << ": the sum is " << sum.to_vector<float>()[0] << ", now rank "
            << world->rank() << std::endl;
}

void end_early(const std::vector<std::string>& arguments) {
  const bool me = environment_variable("RANK") == arguments.at(1);
  const std::string& when = arguments.at(2);
  if (me && when == "before") return;
  const TransportKind transport =
      arguments.size() > 3 ? parse_transport(arguments[3]) : TransportKind::automatic;
  const Group world = init_from_env({.transport = transport, .timeout = kPatience});
  const Tensor x = zeros({100});
  for (int i = 0; i < 2; ++i) world.all_reduce(x).wait();
  if (me) return;
  if (when == "apart") {
    std::this_thread::sleep_for(arguments.size() > 4 ? 1s * std::stoi(arguments[4]) : 1s);
    world.store().add("still here", 1);
    return;
  }
  world.all_reduce(x).wait();
}

// NCCL treats processes that share a GPU as hosts connected by loopback. They time-share the GPU,
// hence few channels, small sums and no shared memory.
void be_a_host_of_ones_own() {
  const std::string host = str("rank-", environment_variable("RANK").value_or("0"));
  const std::vector<std::pair<const char*, const char*>> settings{
      {"NCCL_HOSTID", host.c_str()},
      {"NCCL_SOCKET_IFNAME", "lo"},
      {"NCCL_NET", "Socket"},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_NVLS_ENABLE", "0"},
      {"NCCL_MNNVL_ENABLE", "0"},
      {"NCCL_CUMEM_ENABLE", "0"},
      {"NCCL_MAX_NCHANNELS", "2"},
      {"NCCL_ALGO", "Ring"},
      {"NCCL_PROTO", "Simple"},
      {"CUDA_MODULE_LOADING", "EAGER"},
      {"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
  for (const auto& [name, value] : settings) setenv(name, value, 1);
}

/// The sum on the GPU; it has the bits of the sum on a CPU.
void sum_on_both(const Group& group, DType dtype) {
  std::vector<float> values;
  for (int i = 0; i < 10'007; ++i)
    values.push_back(std::sin(static_cast<float>((group.rank() + 1) * (i + 1))));
  const Tensor on_cpu = tensor(values, {10'007}).to(dtype);
  const Tensor on_gpu = on_cpu.to(Device{DeviceType::cuda, 0});
  group.all_reduce(on_cpu).wait();
  group.all_reduce(on_gpu).wait();
  RINGLET_CHECK(on_gpu.to(Device{}).to_vector() == on_cpu.to_vector(), "a sum of ", dtype,
                " has other bits on the GPU");
}

void sum_over_nccl(const std::vector<std::string>& arguments) {
  be_a_host_of_ones_own();
  const Group world = init_from_env({.timeout = kPatience});
  std::vector<int> all;
  for (int rank = 0; rank < world.size(); ++rank) all.push_back(rank);
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring}) {
    const Group group = world.subgroup(all, {.algorithm = algorithm, .timeout = kPatience});
    for (const DType dtype : {DType::f32, DType::bf16}) sum_on_both(group, dtype);
  }
  const Device gpu{DeviceType::cuda, 0};
  std::cout << "rank " << world.rank() << " of " << world.size() << ": a CPU's bits, over "
            << name(world.transport(gpu)) << std::endl;
  if (arguments.size() < 3) return;
  const Tensor x = zeros({1000}, DType::f32, gpu);
  world.all_reduce(x).wait();  // creates all communicators
  const Group last = world.subgroup(all, {.timeout = 10s});
  last.all_reduce(x).wait();
  x.to_vector();
  if (world.rank() == std::stoi(arguments[1])) ::raise(arguments[2] == "stop" ? SIGSTOP : SIGKILL);
  while (true) last.all_reduce(x).wait();
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.at(0) == "group") return add_up();
  if (arguments.at(0) == "early") return end_early(arguments);
  if (arguments[0] == "regroup") return regroup(arguments);
  if (arguments[0] == "leave") return leave();
  if (arguments[0] == "rejoin") return rejoin(arguments);
  if (arguments.at(0) == "nccl") return sum_over_nccl(arguments);
  const Environment here = Environment::read();
  if (here.world_size == 1) {
    std::cout << "rank 0 of 1" << std::endl;
    return;
  }
  const Token token = Token::from_environment();
  std::unique_ptr<TcpStoreServer> server;
  if (here.rank == 0 && !here.store_in_launcher)
    server = serve_tcp_store({.host = here.master_addr, .port = here.port, .token = token});
  {
    const auto store = join_tcp_store({.host = here.master_addr,
                                       .port = here.port,
                                       .token = token,
                                       .name = str("rank ", here.rank),
                                       .timeout = kPatience});
    record_joined(*store, here.rank);
    const auto meet_at = [&](const char* point) {
      store->set(str(point, here.rank), "");
      for (int rank = 0; rank < here.world_size; ++rank) store->get(str(point, rank), kPatience);
    };
    meet_at("here ");
    std::cout << "rank " << here.rank << " of " << here.world_size << ", local " << here.local_rank
              << " of " << here.local_world_size << ", attempt " << here.restart_count << ", pid "
              << getpid() << std::endl;
    meet_at("printed ");
    act(arguments, here, *store);
  }
  if (server) server->wait_for_goodbyes(kPatience);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const Error& error) {
    std::cerr << "rank_program: " << error.what() << std::endl;
    return dynamic_cast<const InputError*>(&error) != nullptr ? 2 : 1;
  }
}
