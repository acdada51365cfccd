// The batches, model and loss of a rank: drawn lengths, or files.
#pragma once

#include <memory>
#include <string>

#include "options.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/data/loader.h"

namespace ringlet::bench {

/// The requested part of each global batch: rank's of `ranks`, each with `devices` devices of
/// options.batch pairs.
struct Share {
  int rank = 0;
  int ranks = 1;
  int devices = 1;
  bool equal_batches = false;  // see train::LoaderOptions
};

struct Source {
  models::SentenceEncoder model;
  std::shared_ptr<models::Loss> loss;
  std::unique_ptr<train::Loader<models::PackedBatch>> loader;
  /// Rows of all data sets per row trained in an epoch; transformers' Trainer divides the former by
  /// the time.
  double hf_rows_per_pair = 1;
};

/// Makes a named model of drawn batches. Processes forked later start with its weights, which they
/// copy: they need not draw them. Returns the bytes that they inherit.
std::size_t prepare_model(const ThroughputOptions& options);

/// Random ids with the histogram's lengths and options.loss, of three labels; with options.data,
/// the files' rows and the losses for their columns.
Source make_source(const ThroughputOptions& options, Share share);

/// Its data, for a report. Creates no model; InputError if the data cannot be read.
std::string describe_data(const ThroughputOptions& options);

}  // namespace ringlet::bench
