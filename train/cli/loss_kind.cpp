#include "ringlet/train/cli/loss_kind.h"

#include <algorithm>
#include <array>

#include "ringlet/models/losses/losses.h"
#include "ringlet/train/cli/command.h"

namespace ringlet::cli {
namespace {

using train::Target;
using train::TextDataset;

using Loss = std::shared_ptr<models::EmbeddingLoss>;
using models::SentenceEncoder;
using train::BatchSampler;

template <class Plain>
Loss plain(const SentenceEncoder& encoder, const LossOptions&, int) {
  return std::make_shared<Plain>(encoder);
}
Loss softmax(const SentenceEncoder& encoder, const LossOptions&, int classes) {
  return std::make_shared<models::SoftmaxLoss>(encoder, classes);
}
template <class Order>
Loss scaled(const SentenceEncoder& encoder, const LossOptions& options, int) {
  return std::make_shared<Order>(encoder, options.scale.value_or(20));
}
template <bool symmetric>
Loss ranking(const SentenceEncoder& encoder, const LossOptions& options, int) {
  return std::make_shared<models::MultipleNegativesRankingLoss>(
      encoder, models::RankingOptions{options.scale.value_or(20), symmetric});
}
template <class Margin>
Loss margin(const SentenceEncoder& encoder, const LossOptions& options, int) {
  constexpr bool of_pairs = std::is_same_v<Margin, models::ContrastiveLoss> ||
                            std::is_same_v<Margin, models::OnlineContrastiveLoss>;
  const models::MarginOptions usual =
      of_pairs ? models::kContrastiveMargin : models::MarginOptions{};
  return std::make_shared<Margin>(encoder,
                                  models::MarginOptions{options.distance.value_or(usual.distance),
                                                        options.margin.value_or(usual.margin)});
}

/// Options of a loss: --negatives; --scale; --margin and --distance.
enum Has : unsigned { kRows = 1, kScale = 2, kMargin = 4 };

/// A loss's making, data and options.
struct Rule {
  Loss (*make)(const SentenceEncoder&, const LossOptions&, int classes);
  std::size_t fewest, most;  // text columns
  std::vector<Target> targets;
  const char* needs;
  unsigned has = 0;
  std::optional<BatchSampler> sampler = {};
};

const Rule& rule_of(LossKind kind) {
  using namespace models;
  using enum Target;
  constexpr std::size_t kMost = train::kMaxColumns;
  constexpr auto kDistinct = BatchSampler::no_duplicates, kGrouped = BatchSampler::group_by_label;
  constexpr const char* kScored = "a pair of sentences and a score";
  constexpr const char* kGraded = "a pair of sentences and a score or label";
  constexpr const char* kBinary = "a pair of sentences and a label, 0 or 1";
  constexpr const char* kRanked = "an anchor and a positive without label or score";
  constexpr const char* kTriplet = "an anchor, a positive and a negative";
  constexpr const char* kClass = "a sentence and a label";
  // In the order of LossKind.
  static const std::array<Rule, kLosses.all.size()> kRules{{
      {softmax, 2, 2, {label}, "a pair of sentences and a label"},
      {plain<CosineSimilarityLoss>, 2, 2, {score}, kScored},
      {scaled<CoSENTLoss>, 2, 2, {score, label}, kGraded, kRows | kScale},
      {scaled<AnglELoss>, 2, 2, {score, label}, kGraded, kRows | kScale},
      {ranking<false>, 2, kMost, {none}, kRanked, kRows | kScale, kDistinct},
      {ranking<true>, 2, kMost, {none}, kRanked, kRows | kScale, kDistinct},
      {margin<TripletLoss>, 3, 3, {none}, kTriplet, kMargin},
      {margin<ContrastiveLoss>, 2, 2, {score, label}, kGraded, kMargin},
      {margin<OnlineContrastiveLoss>, 2, 2, {label}, kBinary, kRows | kMargin},
      {margin<BatchHardTripletLoss>, 1, 1, {label}, kClass, kRows | kMargin, kGrouped},
      {plain<MSELoss>, 1, kMost, {none}, "sentences without label or score"},
  }};
  return kRules[static_cast<std::size_t>(kind)];
}

}  // namespace

void add_loss_options(Command& command, LossOptions& options) {
  command.add("--negatives", options.negatives, models::kNegatives,
              "Rows that a ranking loss compares: of all devices and accumulated batches (global), "
              "or of each forward (local)");
  command.add("--scale", options.scale, Range{1e-3, 1e3},
              "cosent, angle, mnrl, symmetric: factor of the similarities (20)");
  command.add("--margin", options.margin, Range{0.0, 1e3},
              "triplet, batch_hard (5), contrastive, online_contrastive (0.5): the margin");
  command.add("--distance", options.distance, models::kDistances,
              "Distance of the losses with a margin");
  command.add_list("--matryoshka-dims", options.matryoshka_dims, Range{1, 1 << 20},
                   "Train the first values of each embedding, too: for example 384,128,32");
}

void check_loss_options(const LossOptions& options, const std::vector<LossKind>& losses) {
  const auto check = [&](const char* option, bool set, Has has) {
    if (set && std::ranges::none_of(losses, [&](LossKind kind) { return rule_of(kind).has & has; }))
      fail_input(option, ": no loss of this run has it");
  };
  check("--negatives", options.negatives.has_value(), kRows);
  check("--scale", options.scale.has_value(), kScale);
  check("--margin", options.margin.has_value(), kMargin);
  check("--distance", options.distance.has_value(), kMargin);
  for (const LossKind whole : {LossKind::softmax, LossKind::mse})
    if (!options.matryoshka_dims.empty() && std::ranges::find(losses, whole) != losses.end())
      fail_input("--matryoshka-dims: ", kLosses(whole),
                 " needs whole embeddings; expected other losses");
  if (options.distance == models::Distance::manhattan &&
      std::ranges::find(losses, LossKind::batch_hard) != losses.end())
    fail_input("--distance manhattan: batch_hard has euclidean and cosine");
}

LossKind deduce_loss(const TextDataset& data, const std::string& where) {
  if (data.columns().size() < 2)
    fail_input(where,
               ": expected two or more columns of text, found one; one with labels is for "
               "the loss batch_hard");
  switch (data.target()) {
    case Target::label:
      return LossKind::softmax;
    case Target::score:
      return LossKind::cosine;
    case Target::none:
    case Target::embedding:
      break;
  }
  return LossKind::mnrl;
}

void check_suits(const TextDataset& data, LossKind loss, const std::string& where) {
  const Rule& rule = rule_of(loss);
  const std::size_t columns = data.columns().size();
  if (columns < rule.fewest || columns > rule.most ||
      std::ranges::find(rule.targets, data.target()) == rule.targets.end())
    fail_input(where, ": loss ", kLosses(loss), " needs ", rule.needs);
  if (loss != LossKind::contrastive && loss != LossKind::online_contrastive) return;
  if (data.num_labels() > 2)
    fail_input(where, ": loss ", kLosses(loss), " needs labels 0 and 1, found ",
               data.num_labels() - 1);
  if (data.target() != Target::score) return;
  for (std::size_t row = 0; row < data.size(); ++row)
    if (data.score(row) < 0)
      fail_input(where, ": loss ", kLosses(loss), " needs scores from 0 to 1, found ",
                 data.score(row), " in row ", row + 1);
}

std::optional<BatchSampler> sampler_of(LossKind loss) { return rule_of(loss).sampler; }

Loss make_loss(LossKind kind, const LossOptions& options, const SentenceEncoder& encoder,
               int classes) {
  const Loss loss = rule_of(kind).make(encoder, options, classes);
  if (options.negatives) loss->set_negatives(*options.negatives);
  if (options.matryoshka_dims.empty()) return loss;
  return of_option("--matryoshka-dims", [&] {
    return std::make_shared<models::MatryoshkaLoss>(loss, options.matryoshka_dims);
  });
}

}  // namespace ringlet::cli
