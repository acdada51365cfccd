// Open MPI as a contender: a separate program under mpirun, started by rank 0 while the other ranks
// sleep. It has its own buffers, with the sizes and values of ours.
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "collectives_contenders.h"
#include "ringlet/core/error.h"

namespace ringlet::bench {
namespace {

class MpiContender final : public Contender {
 public:
  MpiContender(const CollectivesOptions& options, const comm::Group& world)
      : options_(options), world_(world) {}

  std::string algorithm() const override { return "openmpi"; }
  std::string transport() const override { return "-"; }
  bool can(const std::string& op) const override { return op == "all_reduce"; }

  Measurement run(const std::string&, std::int64_t bytes, bool) override {
    Measurement measurement;
    if (world_.rank() == 0) {
      const std::string command =
          str("mpirun --oversubscribe --allow-run-as-root -np ", world_.size(), " ",
              RINGLET_BENCH_MPI, " ", bytes, " ", options_.seconds, " 2>&1");
      FILE* pipe = popen(command.c_str(), "r");
      RINGLET_CHECK(pipe, "cannot start ", command);
      std::string text;
      char part[4096];
      while (const std::size_t n = std::fread(part, 1, sizeof(part), pipe)) text.append(part, n);
      RINGLET_CHECK_EQ(pclose(pipe), 0, command, "\n", text);
      std::istringstream values(text);
      values >> measurement.wrong;
      for (double seconds; values >> seconds;) measurement.seconds.push_back(seconds);
    }
    world_.barrier();
    return measurement;
  }

 private:
  const CollectivesOptions& options_;
  comm::Group world_;
};

}  // namespace

std::unique_ptr<Contender> make_mpi_contender(const CollectivesOptions& options,
                                              const comm::Group& world) {
  const bool there = std::string(RINGLET_BENCH_MPI) != "" && options.dtype == DType::f32 &&
                     std::system("command -v mpirun >/dev/null") == 0;
  if (!there) return nullptr;
  return std::make_unique<MpiContender>(options, world);
}

}  // namespace ringlet::bench
