#include "ringlet/comm/environment.h"

#include <doctest/doctest.h>

#include <functional>

#include "ringlet/tests/comm/environment.h"
#include "ringlet/tests/message.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;

namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(const Variables& variables) {
  return with_environment(variables, Environment::read);
}

std::string error_with(const Variables& variables) {
  return message_of<InputError>([&] { environment_of(variables); });
}

const Variables torchrun{{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "10.0.0.7"},
                         {"MASTER_PORT", "29500"}};

Variables torchrun_with(const Variables& changes) {
  Variables changed = torchrun;
  for (const auto& [name, value] : changes) changed[name] = value;
  return changed;
}

}  // namespace

TEST_CASE("a program that was not launched is one rank") {
  const Environment alone = environment_of({});
  CHECK_EQ(alone.rank, 0);
  CHECK_EQ(alone.world_size, 1);
  CHECK_FALSE(alone.launched);
}

TEST_CASE("torchrun's variables") {
  const Environment here = environment_of(torchrun);
  CHECK(here.launched);
  CHECK_EQ(here.rank, 5);
  CHECK_EQ(here.local_rank, 1);
  CHECK_EQ(here.world_size, 8);
  CHECK_EQ(here.local_world_size, 4);
  CHECK_EQ(here.master_addr, "10.0.0.7");
  CHECK_EQ(here.port, 29501);  // its agent owns MASTER_PORT
  CHECK_EQ(here.restart_count, 0);
  CHECK_FALSE(here.store_in_launcher);
  CHECK_EQ(environment_of(torchrun_with({{"RINGLET_PORT", "4000"}})).port, 4000);
  CHECK_EQ(environment_of(torchrun_with({{"TORCHELASTIC_RESTART_COUNT", "2"}})).restart_count, 2);
  // The largest of `ringlet run --grace`, an hour.
  CHECK_EQ(environment_of(torchrun_with({{"RINGLET_GRACE", "3600000"}})).grace, Timeout(3'600'000));
  // All ranks are on this host: loopback works regardless of its name.
  CHECK_EQ(environment_of(torchrun_with({{"LOCAL_WORLD_SIZE", "8"}})).master_addr, "127.0.0.1");
  // torchrun's variables take precedence over an enclosing launcher's.
  CHECK_EQ(
      environment_of(torchrun_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}})).rank,
      5);
}

TEST_CASE("Open MPI's variables") {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"PMIX_NAMESPACE", "3456434177"}};
  const Environment here = environment_of(variables);
  CHECK_EQ(here.rank, 1);
  CHECK_EQ(here.world_size, 2);
  CHECK_EQ(here.local_rank, 1);
  CHECK_EQ(here.master_addr, "127.0.0.1");
  // mpirun sets no port, so it is derived from the job's name, equal on all ranks.
  CHECK(here.port >= 20'000);
  CHECK(here.port < 30'000);
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  CHECK_EQ(environment_of(variables).port, here.port);
  variables["PMIX_NAMESPACE"] = "3456434178";
  CHECK_NE(environment_of(variables).port, here.port);
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  CHECK_EQ(error_with(variables),
           "MASTER_ADDR: expected the address of rank 0's host beside OMPI_COMM_WORLD_RANK=0");
}

TEST_CASE("the variables of PMI, which MPICH and Intel MPI set") {
  const Environment here = environment_of({{"PMI_RANK", "3"},
                                           {"PMI_SIZE", "4"},
                                           {"MPI_LOCALRANKID", "3"},
                                           {"MPI_LOCALNRANKS", "4"},
                                           {"MASTER_PORT", "5000"}});
  CHECK_EQ(here.rank, 3);
  CHECK_EQ(here.world_size, 4);
  CHECK_EQ(here.local_rank, 3);
  CHECK_EQ(here.port, 5001);
}

TEST_CASE("Slurm's variables") {
  Variables variables{{"SLURM_PROCID", "6"},
                      {"SLURM_STEP_NUM_TASKS", "7"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NODEID", "3"},
                      {"SLURM_JOB_ID", "77"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                      {"SLURM_STEP_NODELIST", "gpu[03-05,9],big7"}};
  const Environment here = environment_of(variables);
  CHECK_EQ(here.rank, 6);
  CHECK_EQ(here.world_size, 7);
  CHECK_EQ(here.local_rank, 0);
  CHECK_EQ(here.local_world_size, 1);
  CHECK_EQ(here.master_addr, "gpu03");
  CHECK(here.port >= 20'000);
  variables["SLURM_NODEID"] = "1";
  variables["SLURM_STEP_NODELIST"] = "big7,gpu[03-05]";
  CHECK_EQ(environment_of(variables).local_world_size, 2);
  CHECK_EQ(environment_of(variables).master_addr, "big7");
  variables["SLURM_STEP_NODELIST"] = "rack[1-2]-a,big7";
  CHECK_EQ(environment_of(variables).master_addr, "rack1-a");
  variables["SLURM_STEP_TASKS_PER_NODE"] = "two";
  CHECK_EQ(error_with(variables),
           "SLURM_STEP_TASKS_PER_NODE=two: expected the tasks of each node, like 2(x3),1");
  // A batch script is no step of srun: a process started by it is a single rank.
  CHECK_FALSE(environment_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}})
                  .launched);
}

TEST_CASE("the wrong variable is named, with the expected value") {
  CHECK_EQ(error_with({{"RANK", "1"}}), "WORLD_SIZE: expected a number beside RANK=1");
  CHECK_EQ(error_with({{"WORLD_SIZE", "2"}}), "RANK: expected a number beside WORLD_SIZE=2");
  CHECK_EQ(error_with(torchrun_with({{"RANK", "8"}})), "RANK=8: expected a number from 0 to 7");
  CHECK_EQ(error_with(torchrun_with({{"RANK", "one"}})), "RANK=one: expected a number from 0 to 7");
  CHECK_EQ(error_with(torchrun_with({{"WORLD_SIZE", "0"}})),
           "WORLD_SIZE=0: expected a number from 1 to 1000000");
  CHECK_EQ(error_with(torchrun_with({{"LOCAL_RANK", "4"}})),
           "LOCAL_RANK=4: expected a number from 0 to 3");
  CHECK_EQ(error_with(torchrun_with({{"MASTER_PORT", "65535"}})),
           "MASTER_PORT=65535: expected a number from 1 to 65534");
  CHECK_EQ(error_with(torchrun_with({{"MASTER_PORT", ""}})),
           "MASTER_PORT: expected a port number beside RANK=5");
  CHECK_EQ(error_with(torchrun_with({{"MASTER_ADDR", ""}})),
           "MASTER_ADDR: expected the address of rank 0's host beside RANK=5");
  CHECK_EQ(error_with(torchrun_with({{"RINGLET_PORT", "x"}})),
           "RINGLET_PORT=x: expected a number from 1 to 65535");
  CHECK_EQ(error_with(torchrun_with({{"RINGLET_GRACE", "3600001"}})),
           "RINGLET_GRACE=3600001: expected a number from 0 to 3600000");
}

TEST_SUITE_END();
