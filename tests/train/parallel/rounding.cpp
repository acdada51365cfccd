// The effect of the order of summation. `ring` adds a gradient's n parts in an order that depends
// on its position, `direct` by a tree; all bounds below follow from that alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ringlet/autograd/node.h"

#include "every_strategy.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr double kUnit = 0x1p-24;  // of f32: the largest relative error of an operation

/// Two orders of adding n values differ by at most this factor times the sum of their magnitudes.
/// Each of the n - 1 additions rounds once, in either order.
double two_orders(int n) { return 2 * (n - 1) * kUnit / (1 - (n - 1) * kUnit); }

using Values = std::vector<std::vector<float>>;  // per parameter

/// The training state before a step, and the gradients that the step sums.
struct Moment {
  Values parameters, exp_avg, exp_avg_sq;
  std::vector<Optimizer::ParameterState> state;  // with separate tensors
  std::vector<std::int64_t> updates;             // per parameter
  std::vector<std::vector<double>> magnitude;    // sum over ranks of |g|; empty: not reached
  double last_norm = 0;                          // of the summed gradients of the previous step
};

/// Elements [begin, end) of a parameter.
struct OwnPart {
  std::size_t begin, end;
};

/// In the order of the arena, which is that of the optimizer's state.
std::vector<nn::Parameter> parameters_of(const nn::Module& module) {
  std::vector<nn::Parameter> all;
  for (const nn::Unit& unit : module.arena()->units())
    for (const nn::PlacedParameter& slot : unit.parameters) all.push_back(slot.parameter);
  return all;
}

Values values_of(const nn::Module& module) {
  Values values;
  nn::WholeParameters whole(module);
  for (const nn::Parameter& parameter : parameters_of(module))
    values.push_back(whole(parameter).to_vector());
  return values;
}

/// The part of each parameter that this rank updates, i.e. for which its optimizer has moments.
std::vector<OwnPart> parts_of(const nn::Module& module) {
  std::vector<OwnPart> parts;
  const std::vector<nn::LocalSlice> slices = module.arena()->local_slices();
  for (const nn::Unit& unit : module.arena()->units())
    for (const nn::PlacedParameter& slot : unit.parameters) {
      OwnPart& part = parts.emplace_back(OwnPart{0, 0});
      for (const nn::LocalSlice& slice : slices) {
        const std::int64_t begin = std::max(slice.begin, slot.offset) - slot.offset;
        const std::int64_t end = std::min(slice.end, slot.offset + slot.numel()) - slot.offset;
        if (begin < end) part = {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
      }
    }
  return parts;
}

void note_state(Optimizer& optimizer, Moment& moment) {
  moment.state = optimizer.state();
  for (Optimizer::ParameterState& state : moment.state) {
    for (auto& [name, value] : state.moments) value = value.clone();
    moment.updates.push_back(state.steps);
    const bool here = !state.moments.empty();
    moment.exp_avg.push_back(here ? state.moments[0].second.to_vector() : std::vector<float>());
    moment.exp_avg_sq.push_back(here ? state.moments[1].second.to_vector() : std::vector<float>());
  }
}

/// Ten steps under `direct`, with the same bits as sequential ranks: eleven moments.
std::vector<Moment> trajectory(int n) {
  std::vector<Moment> moments;
  tiny::virtual_ranks(n, {false},
                      [&](const tiny::Model& model, Optimizer& optimizer,
                          const std::vector<tiny::Gradients>& ranks) {
                        Moment& moment = moments.emplace_back();
                        moment.parameters = values_of(*model.loss);
                        moment.last_norm = optimizer.grad_norm();
                        if (moments.size() > 1) note_state(optimizer, moment);
                        for (const nn::Parameter& parameter : parameters_of(*model.loss)) {
                          std::vector<double>& sum = moment.magnitude.emplace_back();
                          for (const tiny::Gradients& mine : ranks) {
                            const auto found = mine.find(parameter.state().get());
                            if (found == mine.end()) continue;
                            const std::vector<float> grad = found->second.to_vector();
                            sum.resize(grad.size());
                            for (std::size_t i = 0; i < grad.size(); ++i)
                              sum[i] += std::abs(static_cast<double>(grad[i]));
                          }
                        }
                      });
  return moments;
}

/// |m / (1 - beta1^t)| <= U sqrt(v / (1 - beta2^t)) for any t gradients (Cauchy-Schwarz): no update
/// is longer than lr U.
double longest_update(std::int64_t t, const AdamWOptions& o) {
  double sum = 0;
  for (std::int64_t i = 0; i < t; ++i) {
    const double first = (1 - o.beta1) * std::pow(o.beta1, i) / (1 - std::pow(o.beta1, t));
    const double second = (1 - o.beta2) * std::pow(o.beta2, i) / (1 - std::pow(o.beta2, t));
    sum += first * first / second;
  }
  return std::sqrt(sum);
}

/// Bounds the difference after one AdamW step from equal parameters and moments, if gradients
/// differ by `two_orders`. The formulas are those of optimizer.h; every rounding counts for both
/// runs.
class StepBound {
 public:
  StepBound(const Moment& before, const Moment& after, int n)
      : before_(before), after_(after), sum_(two_orders(n)) {
    double squares = 0, count = 0;
    for (const std::vector<double>& of_parameter : before.magnitude)
      for (const double magnitude : of_parameter) {
        squares += sum_ * magnitude * sum_ * magnitude;
        ++count;
      }
    // The norm: by the triangle inequality; it is summed in f64.
    const double norm = after.last_norm, off = std::sqrt(squares) + 2 * count * 0x1p-53 * norm;
    scale_ = std::min(1.0, options_.max_grad_norm / (norm + 1e-6));
    scale_off_ = scale_ * (off / (norm - off) + 2 * kUnit);
  }

  struct Off {
    double exp_avg, parameter;
  };
  /// The bound for element i of parameter p.
  Off operator()(std::size_t p, std::size_t i) const {
    const AdamWOptions& o = options_;
    const double magnitude = before_.magnitude[p][i];
    const double m = after_.exp_avg[p][i], v = after_.exp_avg_sq[p][i];
    const double m_before =
        before_.exp_avg.empty() || before_.exp_avg[p].empty() ? 0 : before_.exp_avg[p][i];
    // The clipped g: errors of the sum, the scale and their product.
    const double grad = scale_ * magnitude;
    const double grad_off = (scale_ + scale_off_) * sum_ * magnitude + scale_off_ * magnitude +
                            2 * kUnit * (grad + scale_off_ * magnitude);
    // m + (1 - beta1) (g - m): a subtraction, a fused multiply-add.
    const double m_off = (1 - o.beta1) * (grad_off + 2 * kUnit * (grad + std::abs(m_before))) +
                         2 * kUnit * std::abs(m);
    // sqrt(a + b g^2) changes by at most sqrt(b) per unit of g. Roundings: 3 below the root, then
    // the root and the fused multiply-add with eps. That is 1.5 + 1 + 1 units, or 4 including
    // second order.
    const auto t = static_cast<double>(after_.updates[p]);
    const double root = 1 / std::sqrt(1 - std::pow(o.beta2, t));
    const double below = root * std::sqrt(v) + o.eps;
    const double below_off = root * std::sqrt(1 - o.beta2) * grad_off + 8 * kUnit * below;
    // m1 / d1 - m2 / d2 = (m1 - m2) / d2 + m1 / d1 (d2 - d1) / d2, and no update is longer than U.
    const double longest = longest_update(after_.updates[p], o) * (1 + 8 * kUnit);
    const double rate = o.lr / (1 - std::pow(o.beta1, t));
    double update_off = 2 * o.lr * longest;
    if (below_off < below)
      update_off = std::min(update_off,
                            rate * (m_off + std::abs(m) / below * below_off) / (below - below_off));
    const double parameter = std::abs(static_cast<double>(after_.parameters[p][i]));
    return {m_off, update_off + 2 * kUnit * (rate * std::abs(m) / below + parameter + update_off)};
  }

 private:
  AdamWOptions options_ = tiny::adamw();
  const Moment &before_, &after_;
  double sum_, scale_ = 0, scale_off_ = 0;
};

/// The largest used share of a bound.
struct Used {
  double exp_avg = 0, parameter = 0;
  std::size_t compared = 0;  // elements that were updated
};

/// Compares the results in this rank's parts with the bounds.
void compare(const Moment& found, const std::vector<OwnPart>& parts, const Moment& before,
             const Moment& after, int n, Used& used) {
  const StepBound bound(before, after, n);
  for (std::size_t p = 0; p < after.parameters.size(); ++p) {
    if (before.magnitude[p].empty()) {  // not reached: unchanged
      REQUIRE((found.parameters[p] == after.parameters[p]));
      continue;
    }
    const auto [begin, end] = parts[p];
    REQUIRE(found.exp_avg[p].size() == end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const auto share = [](float a, float b, double allowed) {
        const double off = std::abs(static_cast<double>(a) - b);
        return off == 0 ? 0 : off / allowed;
      };
      const StepBound::Off off = bound(p, i);
      const double m = share(found.exp_avg[p][i - begin], after.exp_avg[p][i], off.exp_avg);
      const double x = share(found.parameters[p][i], after.parameters[p][i], off.parameter);
      used.exp_avg = std::max(used.exp_avg, m);
      used.parameter = std::max(used.parameter, x);
      ++used.compared;
      if (!(m <= 1 && x <= 1)) FAIL("parameter ", p, "[", i, "]: ", m, " and ", x, " of the bound");
    }
  }
}

/// One rank of training under ring; each step starts from the state reached by `direct`.
Used follow(const std::vector<Moment>& moments, const tiny::Parallel& parallel,
            const comm::Group& group) {
  tiny::Model model;
  const auto attached = parallel.attach(model, group);
  tiny::Training training(model, group);
  const auto sharding = nn::sharding_of(*model.loss);
  const std::vector<OwnPart> parts = parts_of(*model.loss);
  Used used;
  for (std::size_t step = 0; step + 1 < moments.size(); ++step) {
    const Moment& before = moments[step];
    std::size_t p = 0;
    for (const nn::Parameter& parameter : parameters_of(*model.loss))
      sharding->assign(parameter, tensor(before.parameters[p++], parameter.shape()));
    if (step > 0) training.optimizer.load_state(before.state);
    training.step();
    Moment found;
    found.parameters = values_of(*model.loss);
    note_state(training.optimizer, found);
    // Only one rank compares the parts that all ranks hold.
    if (sharding->replicas().rank() == 0)
      compare(found, parts, before, moments[step + 1], group.size(), used);
  }
  return used;
}

/// Elements that all steps update.
std::size_t updated_in(const std::vector<Moment>& moments) {
  std::size_t n = 0;
  for (std::size_t step = 0; step + 1 < moments.size(); ++step)
    for (const std::vector<double>& magnitude : moments[step].magnitude) n += magnitude.size();
  return n;
}

}  // namespace

TEST_CASE("under ring every step is as far from one under direct as two orders of adding allow") {
  for (const int n : {2, 3, 4}) {
    const std::vector<Moment> moments = trajectory(n);
    REQUIRE(moments.size() == static_cast<std::size_t>(tiny::kSteps) + 1);
    for (const tiny::Parallel& parallel : tiny::every_strategy()) {
      CAPTURE(n);
      CAPTURE(parallel.name);
      std::vector<Used> ranks(static_cast<std::size_t>(n));
      comm::launch(
          [&](const comm::Group& group) {
            ranks[static_cast<std::size_t>(group.rank())] = follow(moments, parallel, group);
          },
          n, {.group = {.algorithm = comm::Algorithm::ring}});
      Used used;
      for (const Used& rank : ranks)
        used = {std::max(used.exp_avg, rank.exp_avg), std::max(used.parameter, rank.parameter),
                used.compared + rank.compared};
      CHECK(used.compared == updated_in(moments));
      CHECK((used.exp_avg > 0) == (n > 2));  // the sum of two values has only one order
      MESSAGE(n, " ranks, ", std::string(parallel.name), ": used ", 100 * used.exp_avg,
              " % of the error allowed to moments, ", 100 * used.parameter, " % to parameters");
    }
  }
}

// The test above bounds the distance to direct for single steps. Over several steps the gradients
// are of different parameters, and no bound of their difference is known.
TEST_CASE("under ring ten steps end with the same bits, run to run and rank to rank") {
  for (const int n : {2, 3, 4}) {
    for (const tiny::Parallel& parallel : tiny::every_strategy()) {
      CAPTURE(n);
      CAPTURE(parallel.name);
      const auto train = [&](tiny::Model& model, const comm::Group& group) {
        const auto attached = parallel.attach(model, group);
        tiny::train_rank(model, tiny::loader_options(group.rank(), n));
      };
      const comm::GroupOptions ring{.algorithm = comm::Algorithm::ring};
      const auto once = tiny::run(n, ring, train), again = tiny::run(n, ring, train);
      for (const tiny::Bits& bits : once) CHECK(bits == once[0]);
      CHECK(once == again);
    }
  }
}
