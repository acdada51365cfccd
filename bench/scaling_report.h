// Output of the scaling model: tables, JSON and charts.
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
  double rate;     // samples per second
  double speedup;  // over one device
};

struct Prediction {
  Machine machine;
  std::vector<Point> points;  // ordered by number of devices, then strategy
};

/// All strategies that the machine can run, for each of its numbers of devices.
Prediction predict(Machine machine);

/// The reference's published table, the same ratios modelled, and reasons for the difference.
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
/// A chart per machine with more than one number of devices.
std::string draw(const Report& report);

}  // namespace ringlet::bench
