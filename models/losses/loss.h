// Losses: modules that turn a batch into one number, which training minimises.
#pragma once

#include <memory>
#include <vector>

#include "ringlet/models/batch.h"
#include "ringlet/nn/clone.h"

namespace ringlet::models {

/// A loss holds the encoder it trains and its own head, if it has one. Its value is this batch's
/// part of the global mean: a sum over rows divided by batch.global_rows. The parts of a global
/// batch, on one rank or many, add up to the whole. A batch that was cut for another number of
/// ranks than a strategy sums over is refused.
class Loss : public nn::Module {
 public:
  bool is_loss() const override { return true; }
  /// A batch on the CPU is copied to the parameters' device first.
  Variable operator()(const PackedBatch& batch) {
    return runner_ ? runner_->run(batch) : run_here(batch);
  }
  /// Without the runner.
  Variable run_here(const PackedBatch& batch);
  /// `batch`, which is on the CPU, on the parameters' device. On a GPU, where plans and memory are
  /// cached by shape, a capturable loss's batch is filled up to its bucket (bucket_of). Under
  /// a runner, which places its parts itself, the batch is unchanged.
  PackedBatch placed(const PackedBatch& batch);
  /// Sets the runner of this loss's batches; null: the loss runs them itself.
  void set_runner(BatchRunner* runner) { runner_ = runner; }
  const BatchRunner* runner() const { return runner_; }
  /// Whether the loss of data set `dataset` compares the rows of a global batch over all ranks and
  /// devices. A trainer then gives it all rows of a step at once.
  virtual bool spans_ranks(std::size_t /*dataset*/) const { return false; }
  /// The fewest rows for a meaningful loss of data set `dataset` with `columns` texts a row. They
  /// are the global batch's if the loss spans ranks. Negatives from other rows need two.
  virtual std::int64_t min_rows(std::size_t /*dataset*/, std::int64_t /*columns*/) const {
    return 1;
  }
  /// Whether batches may be padded and a training step captured. Forward must enqueue the same work
  /// for all batches of the same shapes. It must take its numbers from the batch's tensors alone,
  /// read nothing back, and treat tokens after a sentence's length (PackedBatch::lengths) as
  /// padding.
  virtual bool is_capturable() const { return false; }
  /// Whether the loss runs this batch piece by piece (PackedBatch::forward_rows). It then takes it
  /// from the CPU.
  virtual bool cuts(const PackedBatch&) const { return false; }
  /// The class, and the options that change the values of data set `dataset`: equal texts are equal
  /// losses.
  virtual std::string describe(std::size_t /*dataset*/) const { return kind(); }
  /// Declares that the value is the mean over this batch's rows instead of its part of the global
  /// mean, as the strategies' option average expects.
  void set_local_mean(bool value = true) { local_mean_ = value; }
  bool is_local_mean() const { return local_mean_; }
  /// The loss of this batch, if a loss holds several: all parameters below it must get a gradient.
  virtual Loss& loss_of(const PackedBatch&) { return *this; }

 protected:
  virtual Variable forward(const PackedBatch& batch) = 0;  // ()

 private:
  void check_ranks(const PackedBatch& batch) const;
  PackedBatch placed_here(const PackedBatch& batch);
  BatchRunner* runner_ = nullptr;
  bool local_mean_ = false;
};

/// Batches of data set i go to loss i. The losses share an encoder, which keeps its names; the
/// other parameters of loss i are called "losses.i.NAME".
class MultiLoss : public Loss {
 public:
  /// `shared` is the encoder's module, SentenceEncoder::modules().
  MultiLoss(std::shared_ptr<nn::Module> shared, std::vector<std::shared_ptr<Loss>> losses);

  const char* kind() const override { return "MultiLoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override;
  const std::vector<std::shared_ptr<Loss>>& losses() const { return losses_; }
  std::int64_t min_rows(std::size_t dataset, std::int64_t columns) const override {
    return loss_for(dataset).min_rows(dataset, columns);
  }
  bool spans_ranks(std::size_t dataset) const override {
    return loss_for(dataset).spans_ranks(dataset);
  }
  std::string describe(std::size_t dataset) const override {
    return loss_for(dataset).describe(dataset);
  }
  Loss& loss_of(const PackedBatch& batch) override;

 protected:
  Variable forward(const PackedBatch& batch) override { return loss_of(batch)(batch); }

 private:
  Loss& loss_for(std::size_t dataset) const;

  std::shared_ptr<nn::Module> shared_;
  std::vector<std::shared_ptr<Loss>> losses_;
};

}  // namespace ringlet::models
