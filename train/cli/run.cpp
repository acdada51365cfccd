// `ringlet run`: one program on many ranks, with torchrun's options.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/processors.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/exit_code.h"

namespace ringlet::cli {
namespace {

constexpr int kUsualPort = 29500;
constexpr int kMostPerNode = 4096;  // and nodes

struct RunOptions {
  comm::LauncherOptions launch{.command = {}, .node_rank = -1, .master_addr = ""};
  std::string nproc_per_node = "1";
  std::string nnodes = "1";
  std::string rdzv_endpoint;
  std::string rdzv_backend;
  std::string tee;
  bool standalone = false;
  double grace = 30;
  bool no_python = false;
};

/// The whole text as a number, or -1.
int to_number(std::string_view text) { return parse_number<int>(text).value_or(-1); }

int cuda_devices() {
  return has_backend(DeviceType::cuda) ? backend(DeviceType::cuda).device_count() : 0;
}

int ranks_per_node(const std::string& text) {
  if (text == "cpu") return usable_processors();
  if (text == "gpu" || text == "auto") {
    if (const int devices = cuda_devices(); devices > 0) return devices;
    if (text == "gpu") fail_input("--nproc-per-node gpu: ", no_device(DeviceType::cuda));
    return usable_processors();
  }
  const int number = to_number(text);
  if (number < 1 || number > kMostPerNode)
    fail_input("--nproc-per-node ", text, ": expected a number up to ", kMostPerNode,
               ", cpu, gpu or auto");
  return number;
}

int nodes(const std::string& text) {
  // torchrun's MIN:MAX is one number where both are the same.
  const std::size_t colon = text.find(':');
  const int least = to_number(text.substr(0, colon));
  const int most = colon == text.npos ? least : to_number(text.substr(colon + 1));
  if (least < 1 || most < 1 || least > kMostPerNode)
    fail_input("--nnodes ", text, ": expected a number up to ", kMostPerNode);
  if (least != most) fail_input("--nnodes ", text, ": worlds that change size are not supported");
  return least;
}

/// "3", or "0:3,1:1": 1 is standard output, 2 standard error, 3 both; by local rank.
std::vector<comm::Streams> streams(const std::string& text, int ranks) {
  std::vector<comm::Streams> all(static_cast<std::size_t>(ranks));
  const auto parse = [&](std::string_view digit) {
    const int value = to_number(digit);
    if (value < 0 || value > 3)
      fail_input("--tee ", text,
                 ": expected 0 to 3 (1 standard output, 2 standard error, 3 both), "
                 "or LOCAL_RANK:0-3,…");
    return comm::Streams{.out = (value & 1) != 0, .err = (value & 2) != 0};
  };
  if (text.empty()) return all;
  if (text.find(':') == text.npos) {
    std::fill(all.begin(), all.end(), parse(text));
    return all;
  }
  for (const std::string& item : split(text)) {
    const std::size_t colon = std::min(item.find(':'), item.size());
    const int rank = to_number(item.substr(0, colon));
    if (rank < 0 || rank >= ranks)
      fail_input("--tee ", text, ": expected local ranks from 0 to ", ranks - 1);
    all[static_cast<std::size_t>(rank)] = parse(item.substr(std::min(colon + 1, item.size())));
  }
  return all;
}

/// --rdzv-endpoint HOST[:PORT], [IPV6]:PORT.
void set_endpoint(const std::string& endpoint, comm::LauncherOptions& launch) {
  const std::size_t colon = endpoint.rfind(':');
  const bool has_port = colon != endpoint.npos && endpoint.find(']', colon) == endpoint.npos;
  launch.master_addr = endpoint.substr(0, has_port ? colon : endpoint.npos);
  if (launch.master_addr.size() > 2 && launch.master_addr.front() == '[')
    launch.master_addr = launch.master_addr.substr(1, launch.master_addr.size() - 2);
  if (has_port) launch.master_port = to_number(endpoint.substr(colon + 1));
  if (launch.master_addr.empty() || launch.master_port < 0 || launch.master_port > 65535)
    fail_input("--rdzv-endpoint ", endpoint, ": expected HOST:PORT");
}

/// Completes and checks them.
comm::LauncherOptions launcher_options(const RunOptions& options) {
  comm::LauncherOptions launch = options.launch;
  if (launch.command.empty())
    fail_input("expected a program to run: ringlet run … PROGRAM ARGUMENTS");
  launch.nproc_per_node = ranks_per_node(options.nproc_per_node);
  launch.nnodes = nodes(options.nnodes);
  if (const int ranks = launch.nnodes * launch.nproc_per_node; ranks > comm::kMostRanks)
    fail_input("--nnodes ", launch.nnodes, ": expected at most ", comm::kMostRanks,
               " ranks, found ", ranks);
  if (launch.node_rank >= launch.nnodes)
    fail_input("--node-rank ", launch.node_rank, ": expected less than --nnodes ", launch.nnodes);
  if (launch.nnodes > 1) {
    if (options.standalone)
      fail_input("--standalone is for one node, not --nnodes ", launch.nnodes);
    if (launch.master_addr.empty() && options.rdzv_endpoint.empty())
      fail_input("--nnodes ", launch.nnodes,
                 ": expected --master-addr or --rdzv-endpoint, the address of node 0");
    if (launch.node_rank < 0)
      fail_input("--nnodes ", launch.nnodes, ": expected --node-rank, from 0 to ",
                 launch.nnodes - 1);
    if (launch.max_restarts > 0)
      fail_input("--max-restarts ", launch.max_restarts,
                 ": restarts are for one host, not --nnodes ", launch.nnodes);
  }
  if (!options.rdzv_endpoint.empty() && !options.standalone)
    set_endpoint(options.rdzv_endpoint, launch);
  if (launch.nnodes > 1 && launch.master_port == 0) launch.master_port = kUsualPort;
  if (launch.master_addr.empty()) launch.master_addr = comm::LauncherOptions().master_addr;
  launch.node_rank = std::max(launch.node_rank, 0);
  if (launch.min_ranks > launch.nproc_per_node)
    fail_input("--min-ranks ", launch.min_ranks, ": expected at most --nproc-per-node ",
               launch.nproc_per_node);
  launch.tee = streams(options.tee, launch.nproc_per_node);
  launch.grace = std::chrono::milliseconds(static_cast<long>(options.grace * 1000));
  return launch;
}

}  // namespace

void add_run(Command& program) {
  Command& command =
      program.add_command("run", "Start a program on many ranks: ringlet run [options] PROGRAM …");
  const auto options = std::make_shared<RunOptions>();
  const auto add = [&](std::string names, auto& value, const auto&... more) -> Option& {
    std::string torch = names;  // torchrun takes either spelling
    std::replace(torch.begin() + 2, torch.end(), '-', '_');
    if (torch != names) names += ',' + torch;
    return command.add(names, value, more...);
  };
  command.add("-n,--nproc-per-node,--nproc_per_node", options->nproc_per_node,
              "Ranks on this host: a number, cpu, gpu or auto");
  add("--nnodes", options->nnodes, "Hosts; start this command on each of them, with as many ranks");
  add("--node-rank", options->launch.node_rank, Range{0, 1 << 20},
      "Which of them this is; on the first, rank 0 keeps the store");
  add("--master-addr", options->launch.master_addr, "The address of node 0");
  add("--master-port", options->launch.master_port, Range{1, 65535},
      "The store's port; a free one, or 29500 for several nodes");
  add("--rdzv-endpoint", options->rdzv_endpoint,
      "HOST:PORT, in place of --master-addr and --master-port")
      .excludes = {"--master-addr", "--master-port"};
  add("--rdzv-id", options->launch.run_id, "The job's name, for TORCHELASTIC_RUN_ID");
  add("--rdzv-backend", options->rdzv_backend, OneOf{{"c10d", "static"}},
      "torchrun's; the store is ringlet's with either");
  add("--max-restarts", options->launch.max_restarts, Range{0, comm::kMostRestarts},
      "How often all ranks start again after a failure, on one host");
  add("--min-ranks", options->launch.min_ranks, Range{1, kMostPerNode},
      "Go on without killed ranks if at least so many are left; `ringlet train` takes them up "
      "again")
      .needs = "--max-restarts";
  add("--log-dir", options->launch.log_dir,
      "Write what ranks print to DIR/attempt_A/rank_R/stdout.log, stderr.log");
  add("--tee", options->tee,
      "Of that, what goes to the screen, too: 1 standard output, 2 standard error, 3 both; or "
      "LOCAL_RANK:1-3,…")
      .needs = "--log-dir";
  add("--standalone", options->standalone, "One node and a free port: the default");
  add("--no-python", options->no_python, "torchrun's; every program is run as it is");
  add("--grace", options->grace, Range{0.0, comm::seconds_of(comm::kLongestGrace)},
      "Seconds between a signal to this command, which the ranks get, too, and SIGKILL; after a "
      "failure at most 5");
  add("--no-pin", options->launch.pin,
      "Let ranks run on any processor; otherwise each has its own where they suffice");
  command.add("PROGRAM", options->launch.command,
              "The program and its arguments, perhaps behind --");
  command.run = [options] {
    const int code = comm::run_launcher(launcher_options(*options), std::cout, std::cerr).code;
    if (code != 0) throw Exit{code};
  };
}

}  // namespace ringlet::cli
