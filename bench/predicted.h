// The speed-ups predicted by the alpha-beta model, next to the measured ones. Their inputs are the
// run's own step of one device and the link timed in it.
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

/// The excess of a measured step over the modelled one, in ms. The sum of the terms is the
/// difference.
struct Excess {
  /// The rest: forward and backward without waits, over those modelled from. Causes: devices that
  /// share a machine, collectives that run concurrently, batches of more tokens.
  double compute = 0;
  /// exposed_ms, including waits for slower ranks, over the model's exposed time.
  double collectives = 0;
  /// The phase over a device's share of the phase modelled from. ZeRO-1 and ZeRO-2 gather
  /// parameters after the update: their part of the exposed ms, by the model's proportion, is
  /// excluded. 0 if phases are not separate.
  double optimizer = 0;
  /// The phase over the phase of the step modelled from.
  double data = 0;

  using Terms = std::array<std::pair<const char*, double>, 4>;
  Terms terms() const;
  double sum() const { return compute + collectives + optimizer + data; }
  /// The largest term with the sign of the sum.
  const char* blame() const;
};

struct PredictedRow {
  struct Measured {
    double speedup;
    Excess excess;
  };
  train::Strategy strategy;
  double speedup;  // modelled; relative to `none`, as the measured one
  std::optional<Measured> measured;
};

struct Predicted {
  LinkTimes link;
  /// `none`; or `unconnected` if it has separate phases and `none`, being replayed, has not. Steps
  /// of several devices are launched op by op, as those of `unconnected` are.
  std::string from;
  DeviceStep device;       // of one device of that row, except for the spread
  double launched = 0;     // its time relative to a replayed `none`; 0: `none` is not replayed
  bool phases = true;      // whether its phases are known; else forward : backward is 1 : 2
  double unconnected = 0;  // its forward and backward relative to those of `none`; 0: unknown
  /// The row that device.spread comes from: `unconnected`, else `none`.
  std::string stray = "none";
  std::vector<PredictedRow> rows;  // dp, ddp, zero1, zero2, fsdp on link.ranks devices

  /// Null if there is no prediction for the row.
  const PredictedRow* find(const Row& row) const;
};

/// `rows` must contain strategy `none`.
Predicted predict(const std::vector<Row>& rows, const models::EncoderConfig& config,
                  const LinkTimes& link, const ThroughputOptions& options);

/// The table, Markdown.
std::string to_markdown(const Predicted& predicted);

}  // namespace ringlet::bench
