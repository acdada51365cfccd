// The speed-ups that the alpha-beta model gives for a run, out of its own step of one device and
// the link that it timed, beside those that it measured.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "link_time.h"
#include "ringlet/models/config.h"
#include "row.h"

namespace ringlet::bench {

/// By how many ms a measured step is longer than the modelled one. The terms add up to the
/// difference.
struct Excess {
  /// What the others leave: forward and backward, less the waits in them, over those modelled from.
  /// Devices that share a machine, collectives beside compute, batches of more tokens.
  double compute = 0;
  /// exposed_ms, waiting for slower ranks included, over what the model leaves exposed.
  double collectives = 0;
  /// The phase over a device's share of that modelled from. Behind the update ZeRO-1 and ZeRO-2
  /// gather parameters: of the exposed ms those, in the model's proportion, do not count here. 0
  /// where phases are not apart.
  double optimizer = 0;
  /// The phase over that of the step modelled from.
  double data = 0;

  using Terms = std::array<std::pair<const char*, double>, 4>;
  Terms terms() const;
  double sum() const { return compute + collectives + optimizer + data; }
  /// The largest term in the direction of the sum.
  const char* blame() const;
};

struct PredictedRow {
  struct Measured {
    double speedup;
    Excess excess;
  };
  train::Strategy strategy;
  double speedup;  // modelled; as the measured one, over `none`
  std::optional<Measured> measured;
};

struct Predicted {
  LinkTimes link;
  /// `none`; `unconnected` where that has phases and `none`, being replayed, has not: a step of
  /// several devices is launched op by op, as one of `unconnected` is.
  std::string from;
  DeviceStep device;       // of a device of that row, but for the spread
  double launched = 0;     // its time over that of a replayed `none`; 0: `none` is not replayed
  bool phases = true;      // of which are known; else forward and backward are taken as 1 : 2
  double unconnected = 0;  // its forward and backward over those of `none`; 0: not known
  /// The row that device.spread is of: `unconnected`, else `none`.
  std::string stray = "none";
  std::vector<PredictedRow> rows;  // dp, ddp, zero1, zero2, fsdp on link.ranks devices

  /// Null where nothing is predicted for the row.
  const PredictedRow* find(const Row& row) const;
};

/// `rows` have one of strategy `none`.
Predicted predict(const std::vector<Row>& rows, const models::EncoderConfig& config,
                  const LinkTimes& link, const ThroughputOptions& options);

/// The table, Markdown.
std::string to_markdown(const Predicted& predicted);

}  // namespace ringlet::bench
