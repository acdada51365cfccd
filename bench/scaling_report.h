// What the scaling model prints, writes and draws.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scaling_check.h"

namespace ringlet::bench {

/// A machine's step under a strategy.
struct Point {
  train::Strategy strategy;
  int devices;
  Step step;
  double rate;     // samples a second
  double speedup;  // over one device
};

struct Prediction {
  Machine machine;
  std::vector<Point> points;  // all strategies of one number of devices, then of the next
};

/// The strategies that the machine can run on each of its numbers of devices.
Prediction predict(Machine machine);

/// The reference's table: what it published, the same ratios modelled, and why they differ.
struct Reference {
  std::string source;
  std::vector<std::pair<std::string, double>> ratios;  // by strategy
  std::vector<Prediction> modelled;                    // on its four devices
  std::vector<std::string> reasons;                    // for the difference
};
Reference read_reference(const Entry& data);

struct Report {
  std::vector<Prediction> predictions;
  Reference reference;
  std::vector<Check> published, strategies, collectives;
};

std::string to_markdown(const Report& report);
void write_json(const std::filesystem::path& path, const Report& report);
/// A chart for each machine that has more than one number of devices.
std::string draw(const Report& report);

}  // namespace ringlet::bench
