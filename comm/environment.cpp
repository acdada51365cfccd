#include "ringlet/comm/environment.h"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "ringlet/comm/host.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::comm {

std::string host_name() {
  char name[256] = "?";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
  return processors;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

namespace {

constexpr long kLastPort = 65535;

/// A number in [least, most]; InputError names the variable.
std::optional<int> number(const char* name, long least, long most) {
  const std::optional<std::string> value = environment_variable(name);
  if (!value) return std::nullopt;
  const auto parsed = parse_number<long>(*value);
  if (!parsed || *parsed < least || *parsed > most)
    fail_input(name, '=', shown(*value), ": expected a number from ", least, " to ", most);
  return static_cast<int>(*parsed);
}

/// The names of one launcher's variables.
struct Variables {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
  const char* job;  // names the job where the launcher knows no MASTER_PORT
};

constexpr Variables kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr};
constexpr Variables kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMIX_NAMESPACE"};
constexpr Variables kPmi{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
                         "HYDRA_KVSNAME"};
constexpr Variables kSlurm{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
                           "SLURM_JOB_ID"};

/// The launcher that started this process, if any.
const Variables* launcher() {
  if (environment_variable(kTorchrun.rank) || environment_variable(kTorchrun.world_size))
    return &kTorchrun;
  // A batch script, and programs that it starts without srun, have a SLURM_PROCID but are no step.
  for (const Variables* names : {&kOpenMpi, &kPmi, &kSlurm})
    if (environment_variable(names->rank) && environment_variable(names->world_size)) return names;
  return nullptr;
}

int required(const char* name, long least, long most, const char* beside) {
  if (const auto value = number(name, least, most)) return *value;
  fail_input(name, ": expected a number beside ", beside, '=',
             environment_variable(beside).value_or(""));
}

/// The tasks of node `index` in a list of the tasks of each node, like "2(x3),1".
int slurm_tasks_of_node(const std::string& list, int index) {
  for (const char* at = list.c_str();; ++at) {
    int tasks = 0, times = 1, used = 0;
    if (std::sscanf(at, "%6d%n", &tasks, &used) != 1 || tasks < 1) break;
    at += used;
    used = 0;
    std::sscanf(at, "(x%6d)%n", &times, &used);
    at += used;
    if (index < times) return tasks;
    index -= times;
    if (*at != ',') break;
  }
  fail_input("SLURM_STEP_TASKS_PER_NODE=", shown(list),
             ": expected the tasks of each node, like 2(x3),1");
}

/// The first host of a list: gpu03 of "gpu[03-05,7],login".
std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  std::string host = list.substr(0, end);
  if (end == list.npos || list[end] == ',') return host;
  host += list.substr(end + 1, list.find_first_of(",-]", end) - end - 1);
  const std::size_t close = list.find(']', end);
  const std::size_t next = list.find(',', close);
  return close == list.npos ? host : host + list.substr(close + 1, next - close - 1);
}

/// The same port in all processes of a job, without communication; below the ephemeral ports.
int port_of_job(const std::string& name) {
  std::uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return 20'000 + static_cast<int>(hash % 10'000);
}

int find_port(const Variables& names) {
  if (const auto port = number("RINGLET_PORT", 1, kLastPort)) return *port;
  // Under torchrun its agent listens at MASTER_PORT itself.
  if (const auto port = number("MASTER_PORT", 1, kLastPort - 1)) return *port + 1;
  if (names.job != nullptr)
    if (const auto job = environment_variable(names.job))
      return port_of_job(str(names.job, *job, environment_variable("SLURM_STEP_ID").value_or("")));
  fail_input("MASTER_PORT: expected a port number beside ", names.rank, '=',
             environment_variable(names.rank).value_or(""));
}

std::string find_address(const Variables& names, const Environment& environment) {
  if (environment.local_world_size == environment.world_size) return "127.0.0.1";
  if (const auto address = environment_variable("MASTER_ADDR")) return *address;
  if (&names == &kSlurm)
    for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_NODELIST"})
      if (const auto hosts = environment_variable(list)) return first_host(*hosts);
  fail_input("MASTER_ADDR: expected the address of rank 0's host beside ", names.rank, '=',
             environment_variable(names.rank).value_or(""));
}

int find_local_world_size(const Variables& names, int world_size) {
  if (names.local_world_size != nullptr)
    return number(names.local_world_size, 1, world_size).value_or(1);
  const auto tasks = environment_variable("SLURM_STEP_TASKS_PER_NODE");
  if (!tasks) return 1;
  return slurm_tasks_of_node(*tasks, number("SLURM_NODEID", 0, kMostRanks).value_or(0));
}

}  // namespace

Environment Environment::read() {
  Environment found;
  const Variables* names = launcher();
  if (names == nullptr) return found;
  found.launched = true;
  found.world_size = required(names->world_size, 1, kMostRanks, names->rank);
  found.rank = required(names->rank, 0, found.world_size - 1, names->world_size);
  found.local_world_size = find_local_world_size(*names, found.world_size);
  found.local_rank = number(names->local_rank, 0, found.local_world_size - 1).value_or(0);
  found.restart_count = number("TORCHELASTIC_RESTART_COUNT", 0, kMostRestarts).value_or(0);
  found.ranks_at_start = number("RINGLET_RANKS_AT_START", 1, kMostRanks).value_or(0);
  found.grace = Timeout(number("RINGLET_GRACE", 0, kLongestGrace.count()).value_or(0));
  found.joins = environment_variable("RINGLET_JOINS").has_value();
  found.store_in_launcher = environment_variable("RINGLET_LAUNCHER").has_value();
  if (found.world_size == 1) return found;  // no peers to find
  found.port = find_port(*names);
  found.master_addr = find_address(*names, found);
  return found;
}

}  // namespace ringlet::comm
