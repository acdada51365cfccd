#include "ringlet/train/cli/loss_kind.h"

#include <algorithm>
#include <map>

#include "ringlet/models/losses/batch_hard_triplet_loss.h"
#include "ringlet/models/losses/contrastive_loss.h"
#include "ringlet/models/losses/cosent_loss.h"
#include "ringlet/models/losses/cosine_similarity_loss.h"
#include "ringlet/models/losses/matryoshka_loss.h"
#include "ringlet/models/losses/mse_loss.h"
#include "ringlet/models/losses/multiple_negatives_ranking_loss.h"
#include "ringlet/models/losses/softmax_loss.h"
#include "ringlet/models/losses/triplet_loss.h"
#include "ringlet/train/cli/command.h"

namespace ringlet::cli {
namespace {

using train::Target;
using train::TextDataset;

/// A loss's data and options.
struct Rule {
  std::size_t fewest = 2, most = 2;  // text columns
  std::vector<Target> targets = {};
  const char* needs = "";
  bool compares = false;               // rows of a batch
  bool scale = false, margin = false;  // a margin is one between distances
};

std::map<LossKind, Rule> make_rules() {
  using enum LossKind;
  constexpr std::size_t kMost = train::kMaxColumns;
  const std::vector<Target> graded{Target::score, Target::label};
  const Rule ranking{.most = kMost,
                     .targets = {Target::none},
                     .needs = "an anchor and a positive without label or score",
                     .compares = true,
                     .scale = true};
  const Rule graded_pairs{.targets = graded,
                          .needs = "a pair of sentences and a score or label",
                          .compares = true,
                          .scale = true};
  return {{softmax, {.targets = {Target::label}, .needs = "a pair of sentences and a label"}},
          {cosine, {.targets = {Target::score}, .needs = "a pair of sentences and a score"}},
          {cosent, graded_pairs},
          {angle, graded_pairs},
          {mnrl, ranking},
          {symmetric, ranking},
          {triplet,
           {.fewest = 3,
            .most = 3,
            .targets = {Target::none},
            .needs = "an anchor, a positive and a negative",
            .margin = true}},
          {contrastive, {.targets = graded, .needs = graded_pairs.needs, .margin = true}},
          {online_contrastive,
           {.targets = {Target::label},
            .needs = "a pair of sentences and a label, 0 or 1",
            .compares = true,
            .margin = true}},
          {batch_hard,
           {.fewest = 1,
            .most = 1,
            .targets = {Target::label},
            .needs = "a sentence and a label",
            .compares = true,
            .margin = true}},
          {mse,
           {.fewest = 1,
            .most = kMost,
            .targets = {Target::none},
            .needs = "sentences without label or score"}}};
}

const Rule& rule_of(LossKind kind) {
  static const std::map<LossKind, Rule> kRules = make_rules();
  return kRules.at(kind);
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
  const auto check = [&](const char* option, bool set, bool Rule::*has) {
    if (set && std::ranges::none_of(losses, [&](LossKind kind) { return rule_of(kind).*has; }))
      fail_input(option, ": no loss of this run has it");
  };
  check("--negatives", options.negatives.has_value(), &Rule::compares);
  check("--scale", options.scale.has_value(), &Rule::scale);
  check("--margin", options.margin.has_value(), &Rule::margin);
  check("--distance", options.distance.has_value(), &Rule::margin);
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

std::optional<train::BatchSampler> sampler_of(LossKind loss) {
  if (loss == LossKind::mnrl || loss == LossKind::symmetric)
    return train::BatchSampler::no_duplicates;
  if (loss == LossKind::batch_hard) return train::BatchSampler::group_by_label;
  return std::nullopt;
}

namespace {

std::shared_ptr<models::EmbeddingLoss> plain_loss(LossKind kind, const LossOptions& options,
                                                  const models::SentenceEncoder& encoder,
                                                  int classes) {
  const double scale = options.scale.value_or(20);
  const models::RankingOptions ranking{scale, kind == LossKind::symmetric};
  const auto or_usual = [&](const models::MarginOptions& usual) {
    return models::MarginOptions{options.distance.value_or(usual.distance),
                                 options.margin.value_or(usual.margin)};
  };
  const models::MarginOptions triplet = or_usual({}),
                              contrastive = or_usual(models::kContrastiveMargin);
  switch (kind) {
    case LossKind::softmax:
      return std::make_shared<models::SoftmaxLoss>(encoder, classes);
    case LossKind::cosine:
      return std::make_shared<models::CosineSimilarityLoss>(encoder);
    case LossKind::cosent:
      return std::make_shared<models::CoSENTLoss>(encoder, scale);
    case LossKind::angle:
      return std::make_shared<models::AnglELoss>(encoder, scale);
    case LossKind::mnrl:
    case LossKind::symmetric:
      return std::make_shared<models::MultipleNegativesRankingLoss>(encoder, ranking);
    case LossKind::triplet:
      return std::make_shared<models::TripletLoss>(encoder, triplet);
    case LossKind::contrastive:
      return std::make_shared<models::ContrastiveLoss>(encoder, contrastive);
    case LossKind::online_contrastive:
      return std::make_shared<models::OnlineContrastiveLoss>(encoder, contrastive);
    case LossKind::batch_hard:
      return std::make_shared<models::BatchHardTripletLoss>(encoder, triplet);
    case LossKind::mse:
      break;
  }
  return std::make_shared<models::MSELoss>(encoder);
}

}  // namespace

std::shared_ptr<models::EmbeddingLoss> make_loss(LossKind kind, const LossOptions& options,
                                                 const models::SentenceEncoder& encoder,
                                                 int classes) {
  std::shared_ptr<models::EmbeddingLoss> loss = plain_loss(kind, options, encoder, classes);
  if (options.negatives) loss->set_negatives(*options.negatives);
  if (options.matryoshka_dims.empty()) return loss;
  return of_option("--matryoshka-dims", [&] {
    return std::make_shared<models::MatryoshkaLoss>(loss, options.matryoshka_dims);
  });
}

}  // namespace ringlet::cli
