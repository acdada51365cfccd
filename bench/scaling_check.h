// The model compared with measured or published figures.
#pragma once

#include <string>
#include <vector>

#include "scaling_data.h"

namespace ringlet::bench {

struct Check {
  std::string table;
  std::string row;    // "ddp x 2", "64 devices", "ring, 4 MiB"
  double figure = 0;  // measured or published
  double modelled = 0;
  bool fitted = false;  // the figure is an input of the model

  double error() const { return modelled / figure - 1; }
};

/// NVIDIA's tables of BERT-large: the first row of each determines the device's step.
std::vector<Check> check_published(const Entry& data);
/// Pairs per second of two ranks on a CPU: the row of one device determines the step.
std::vector<Check> check_strategies(const Entry& data);
/// GB/s of ring all-reduces: those of `direct`, which move the same bytes, determine the link.
std::vector<Check> check_collectives(const Entry& data);

}  // namespace ringlet::bench
