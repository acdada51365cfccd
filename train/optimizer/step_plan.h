// The elements that an optimizer's step updates, as tables on the first parameter's device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "ringlet/core/ops/optimizer.h"
#include "ringlet/train/optimizer/optimizer_state.h"

namespace ringlet::train {

/// Neighbours with the same update form a segment; all of a slice are updated by one kernel call.
class StepPlan {
 public:
  /// The values of the segment that begins with this parameter.
  using Scalars = std::function<std::vector<double>(const OptimizerState::Entry&)>;
  /// Uploads the segments of the prepared step, and their values.
  void prepare(const OptimizerState& state, const Scalars& scalars) {
    const std::vector<OptimizerState::Span> spans = state.spans();
    std::vector<StepSegment> segments;
    std::vector<double> values;
    runs_.clear();
    for (const OptimizerState::Span& span : spans) {
      const OptimizerState::Entry& entry = state.entries()[span.entry];
      if (!entry.updated) continue;
      if (!runs_.empty() && joins(state, runs_.back(), span)) {
        runs_.back().end = span.end;
        segments.back().end += span.end - span.begin;
        continue;
      }
      runs_.push_back(span);
      const std::int64_t base = state.slices()[span.slice].begin;
      segments.push_back({span.begin - base, span.end - base});
      for (const double value : scalars(entry)) values.push_back(value);
    }
    if (segments.empty()) return;
    const auto n = static_cast<std::int64_t>(segments.size());
    if (segments != uploaded_)
      upload(segment_table(segments, Device{}), spans.size(), state.device(), segments_);
    uploaded_ = std::move(segments);
    const auto width = static_cast<std::int64_t>(values.size()) / n;
    upload(tensor(values, {n, width}, Device{}), spans.size(), state.device(), scalars_);
  }
  /// The segments' first and last elements in the arena, by turns.
  std::vector<std::int64_t> bounds() const {
    std::vector<std::int64_t> bounds;
    for (const auto& span : runs_) bounds.insert(bounds.end(), {span.begin, span.end});
    return bounds;
  }
  /// The segments of a slice and their values, on the device of `grad_scale`; undefined tensors if
  /// there are none.
  StepScalars of_slice(std::size_t slice, const Tensor& grad_scale) const {
    const auto runs_before = [&](std::size_t later) {
      return std::ranges::count_if(runs_, [=](const auto& run) { return run.slice < later; });
    };
    const auto begin = runs_before(slice), end = runs_before(slice + 1);
    if (begin == end) return {};
    const auto rows = [&](const Tensor& table) {
      return table.slice(begin, end).to(grad_scale.device());
    };
    return {rows(scalars_), grad_scale, rows(segments_)};
  }

 private:
  static bool joins(const OptimizerState& state, const OptimizerState::Span& run,
                    const OptimizerState::Span& span) {
    const OptimizerState::Entry &first = state.entries()[run.entry],
                                &next = state.entries()[span.entry];
    return run.end == span.begin && run.slice == span.slice && first.steps == next.steps &&
           first.lr == next.lr && first.weight_decay == next.weight_decay;
  }
  // There is room for every span alone, so that `to` does not move.
  static void upload(const Tensor& rows, std::size_t spans, Device device, Tensor& to) {
    const auto room = static_cast<std::int64_t>(spans);
    if (!to.defined() || to.size(0) < room) to = empty({room, rows.size(1)}, rows.dtype(), device);
    to.slice(0, rows.size(0)).copy_(rows);
  }

  std::vector<OptimizerState::Span> runs_;  // entry: their first
  std::vector<StepSegment> uploaded_;       // those runs, each in its slice
  // ---- on the first parameter's device, where they stay ----
  Tensor segments_;  // (spans, 2) i64: a StepSegment each
  Tensor scalars_;   // (spans, scalars) f64
};

}  // namespace ringlet::train
