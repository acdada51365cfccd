// Optimizers over a module's arena: one pass over its memory, whatever parameters lie there, and on
// a device one kernel. Definitions are those of torch.optim.AdamW, torch.optim.SGD and
// clip_grad_norm_.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/host_copy.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/random.h"
#include "ringlet/core/tensor.h"
#include "ringlet/nn/arena.h"
#include "ringlet/nn/module.h"

namespace ringlet::train {

enum class OptimizerKind { adamw, sgd };
inline constexpr const char* kOptimizerNames = "adamw or sgd";
/// InputError with the known names.
OptimizerKind parse_optimizer(const std::string& name);
const char* optimizer_name(OptimizerKind kind);

/// Whether a parameter takes part in weight decay.
using DecayPredicate = std::function<bool(const std::string& name, const Shape& shape)>;
/// As transformers' Trainer: not where the name contains "bias" or "LayerNorm", nor vectors.
bool decays_by_default(const std::string& name, const Shape& shape);

/// Names of the parameters below `module` that require a gradient and have none. After a backward
/// of a loss's value, a parameter of that loss named here is not reached by it.
std::vector<std::string> parameters_without_grad(const nn::Module& module);

/// The base of all optimizers. Parameters without a gradient in a step are not changed: value,
/// moments and step count.
class Optimizer {
 public:
  struct Options {
    double lr;
    double weight_decay;
    double max_grad_norm;  // clip the global norm to this; 0 leaves gradients as they are
    bool check_finite;     // refuse a gradient that is not finite, naming its parameter
    DecayPredicate decays;
  };
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient and moves this thread's generator to its next
  /// step. Throws, with all parameters unchanged, when a gradient is not finite (this check waits
  /// for the device) or when no_sync left one unsummed. Throws too when no backward has run since a
  /// step of this or another optimizer. Two optimizers may alternate, each after its own backward.
  void step() {
    prepare_step();
    launch_step();
    finish_step();
  }
  // step() in separate calls, for pipelining. The work that launch_step enqueues depends only on
  // which parameters have a gradient, and which were updated equally often. A replay of that work
  // takes the step prepared last.
  /// Brings the rate and bias corrections of the coming step to the parameters' device.
  void prepare_step();
  /// The prepared step's plan, on which launch_step depends. It holds the bounds of the runs of
  /// elements with the same update, and the address of the rounded copy.
  std::vector<std::int64_t> plan() const;
  /// Norm, clipping and update. Updates nothing if a gradient is not finite; later steps update
  /// nothing either, until check_steps has reported that step.
  void launch_step();
  /// To be called after a replay of launch_step's work: the parameters count as written.
  void count_replay();
  /// Counts the step; the device may not have begun it yet.
  void end_step();
  /// Waits for the norms of the ended steps except the `late` latest. Throws if a gradient was not
  /// finite: that step and later ones have updated nothing, and no longer count.
  void check_steps(std::size_t late = 0);
  void finish_step() {
    end_step();
    check_steps();
  }
  void zero_grad() const { module_.zero_grad(); }

  double lr() const { return options_.lr; }
  void set_lr(double lr) { options_.lr = lr; }

  /// Scales the gradients of the coming step so that their global norm is at most `max_norm` (the
  /// gradients themselves stay as they are); returns the norm before that. step() does it unasked
  /// with Options::max_grad_norm.
  double clip_grad_norm(double max_norm);
  /// Global norm at the last step that was checked or clip_grad_norm, before clipping: block sums
  /// in f64, added in an order of their own. NaN before the first. Without checks, the first to ask
  /// waits for the device.
  double grad_norm() const;

  // ---- state, by parameter name ----

  /// Its tensors by what they are ("exp_avg"), the parameter's part that is here, as views.
  struct ParameterState {
    std::string name;
    std::int64_t steps = 0;
    std::vector<std::pair<std::string, Tensor>> moments;
  };
  /// The state of every parameter, in the arena's order; no moments if it was never updated.
  std::vector<ParameterState> state();
  /// The same without moments.
  std::vector<ParameterState> updates() const;
  const std::vector<std::string>& moment_names() const { return moment_names_; }
  /// Moments of each of the arena's local slices, by name, (end - begin) each.
  const std::vector<std::vector<Tensor>>& local_moments() {
    refresh_slices();
    ensure_moments();
    return moments_;
  }
  /// Puts back whole moments, shaped like the parameter or flat, for the parameters named. Others
  /// start anew. Unknown names and other shapes are Error, and then nothing has been changed.
  void load_state(const std::vector<ParameterState>& states);

 protected:
  /// A local slice of the arena, of which the segments are updated.
  struct Run {
    Tensor data, grad;            // (n)
    std::vector<Tensor> moments;  // (n) each
    Tensor rounded;               // (n) bf16, to be written with data; undefined: not wanted
    StepScalars scalars;
    double weight_decay;  // of the segments that decay
  };
  Optimizer(nn::Module& module, Options options, std::vector<std::string> moment_names);
  /// The values of Run::scalars in update() for a segment of parameters at their update number
  /// `step`, counted from 1. Their number is constant.
  virtual std::vector<double> scalars(std::int64_t step) const = 0;
  virtual void update(Run& run) = 0;

 private:
  struct Slot {
    nn::PlacedParameter place;
    bool decays;
    std::int64_t steps = 0;
    bool updated = false;  // by the step that was prepared
  };
  struct Span {  // the part of a slot that lies in a slice
    std::size_t slot, slice;
    std::int64_t begin, end;  // elements of the arena
  };
  /// A step that was ended and not checked.
  struct Ended {
    HostCopy clip;                     // undefined where there is no norm
    std::vector<std::size_t> updated;  // slots
    Generator generator;               // before
  };
  void check_arena() const;
  void check_summed() const;
  void check_fresh() const;
  std::vector<Span> spans() const;
  void refresh_slices();
  void ensure_moments();
  std::size_t slot_of(const ParameterState& given) const;
  Tensor part(const Tensor& of_slice, const Span& span) const;
  Device device() const;
  bool clips() const { return options_.max_grad_norm > 0 || options_.check_finite; }
  bool wants_mirror() const;
  void prepare_mirror();
  bool has_mirror() const;
  void keep_mirror();
  void drop_mirror();
  void plan_runs();
  std::vector<StepSegment> segments() const;
  void upload_segments();
  void upload_scalars();
  void clear_skipped();
  void launch_norm(double max_norm);
  bool is_refused() const;
  void take_back_ended();
  std::vector<std::size_t> slots_with_grad() const;
  bool grad_is_finite(std::size_t slot) const;
  [[noreturn]] void fail_not_finite(const std::vector<std::size_t>& updated);
  void run_updates(bool mirrored);

  nn::Module& module_;
  Options options_;
  std::vector<std::string> moment_names_;
  std::shared_ptr<nn::Arena> arena_;
  std::vector<Slot> slots_;
  std::vector<nn::LocalSlice> slices_;
  std::vector<std::vector<Tensor>> moments_;  // per slice, per name
  std::vector<Span> runs_;                    // of the step that was prepared; slot: their first
  std::vector<StepSegment> uploaded_;         // those runs, each in its slice
  Tensor segments_;                           // (spans, 3): the same, on the parameters' device
  // ---- on the parameters' device, where they stay ----
  Tensor mirror_;       // (n) bf16: the arena as bf16 products read it; undefined: none
  Tensor scalars_;      // 1, then what scalars() gives of each run
  Tensor norm_blocks_;  // of the whole arena
  Tensor clip_;         // (3), of clip_factor(); undefined before the first
  // ---- on the host ----
  std::deque<Ended> ended_;   // oldest first
  mutable HostCopy checked_;  // of clip_, where it was checked last
  bool norm_is_fresh_ = false;
};

struct AdamWOptions {
  double lr = 5e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double max_grad_norm = 0;
  bool check_finite = true;
  DecayPredicate decays = decays_by_default;
};

/// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// p = p (1 - lr decay) - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps).
class AdamW final : public Optimizer {
 public:
  explicit AdamW(nn::Module& module, AdamWOptions options = {});

 private:
  std::vector<double> scalars(std::int64_t step) const override;
  void update(Run& run) override;
  AdamWConstants constants_;
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;  // needs momentum
  double weight_decay = 0;
  double max_grad_norm = 0;
  bool check_finite = true;
  DecayPredicate decays = decays_by_default;
};

/// g += decay p, m = momentum m + g, p -= lr m; with nesterov, p -= lr (g + momentum m).
class Sgd final : public Optimizer {
 public:
  explicit Sgd(nn::Module& module, SgdOptions options = {});

 private:
  std::vector<double> scalars(std::int64_t step) const override;
  void update(Run& run) override;
  SGDConstants constants_;
};

}  // namespace ringlet::train
