// The command line of the scaling model.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ringlet::bench {

struct ScalingOptions {
  std::string data;
  std::string machine;       // one of the file; empty: all
  std::string throughput;    // JSON of that bench; its one-device step replaces the machine's
  std::vector<int> devices;  // empty: the machine's own
  std::string json;
  std::string svg;
};

/// Empty if help was requested and printed. Throws InputError.
std::optional<ScalingOptions> parse_scaling(int argc, char** argv);

}  // namespace ringlet::bench
