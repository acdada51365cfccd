#include "ringlet/train/cli/loss_kind.h"

#include <algorithm>
#include <array>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/names.h"
#include "ringlet/core/base/quote.h"
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

const std::array<LossKind, 11>& table() {
  using namespace models;
  using enum Target;
  constexpr std::size_t kMost = train::kMaxColumns;
  constexpr auto kDistinct = BatchSampler::no_duplicates, kGrouped = BatchSampler::group_by_label;
  constexpr const char* kGraded = "a pair of sentences and a score or label";
  constexpr const char* kRanked = "an anchor and a positive without label or score";
  constexpr const char* kTriplet = "an anchor, a positive and a negative";
  constexpr const char* kEither = "a pair of sentences and a label, 0 or 1";
  constexpr const char* kOne = "a sentence and a label";
  constexpr unsigned kClass = kClassifier | kWhole, kDistilled = kTeacher | kWhole,
                     kPairs = kMargin | kBinary, kHard = kRows | kMargin | kNoManhattan;
  static const std::array<LossKind, 11> kTable{{
      {"softmax", softmax, 2, 2, {label}, "a pair of sentences and a label", kClass},
      {"cosine", plain<CosineSimilarityLoss>, 2, 2, {score}, "a pair of sentences and a score"},
      {"cosent", scaled<CoSENTLoss>, 2, 2, {score, label}, kGraded, kRows | kScale},
      {"angle", scaled<AnglELoss>, 2, 2, {score, label}, kGraded, kRows | kScale},
      {"mnrl", ranking<false>, 2, kMost, {none}, kRanked, kRows | kScale, kDistinct},
      {"symmetric", ranking<true>, 2, kMost, {none}, kRanked, kRows | kScale, kDistinct},
      {"triplet", margin<TripletLoss>, 3, 3, {none}, kTriplet, kMargin},
      {"contrastive", margin<ContrastiveLoss>, 2, 2, {score, label}, kGraded, kPairs},
      {"online_contrastive", margin<OnlineContrastiveLoss>, 2, 2, {label}, kEither, kRows | kPairs},
      {"batch_hard", margin<BatchHardTripletLoss>, 1, 1, {label}, kOne, kHard, kGrouped},
      {"mse", plain<MSELoss>, 1, kMost, {none}, "sentences without label or score", kDistilled},
  }};
  return kTable;
}

/// The first of the losses with a trait; null if none has it.
const LossKind* first_with(const std::vector<const LossKind*>& losses, LossTraits trait) {
  const auto found =
      std::ranges::find_if(losses, [=](const LossKind* one) { return one->traits & trait; });
  return found == losses.end() ? nullptr : *found;
}

}  // namespace

std::string loss_names() {
  std::vector<std::string_view> names;
  for (const LossKind& loss : table()) names.push_back(loss.name);
  return list_names(names);
}

const LossKind* find_loss(std::string_view name) {
  const auto* const found = std::ranges::find(table(), name, &LossKind::name);
  return found == table().end() ? nullptr : found;
}

const LossKind& parse_loss(std::string_view name) {
  if (const LossKind* const found = find_loss(name)) return *found;
  fail_input("unknown loss ", quote(name), "; expected ", loss_names());
}

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

void check_loss_options(const LossOptions& options, const std::vector<const LossKind*>& losses) {
  const auto check = [&](const char* option, bool set, LossTraits trait) {
    if (set && !first_with(losses, trait)) fail_input(option, ": no loss of this run has it");
  };
  check("--negatives", options.negatives.has_value(), kRows);
  check("--scale", options.scale.has_value(), kScale);
  check("--margin", options.margin.has_value(), kMargin);
  check("--distance", options.distance.has_value(), kMargin);
  const LossKind* const whole = first_with(losses, kWhole);
  if (whole && !options.matryoshka_dims.empty())
    fail_input("--matryoshka-dims: ", whole->name,
               " needs whole embeddings; expected other losses");
  const LossKind* const without = first_with(losses, kNoManhattan);
  if (without && options.distance == models::Distance::manhattan)
    fail_input("--distance manhattan: ", without->name, " has euclidean and cosine");
}

const LossKind& deduce_loss(const TextDataset& data, const std::string& where) {
  if (data.columns().size() < 2)
    fail_input(where,
               ": expected two or more columns of text, found one; one with labels is for "
               "the loss batch_hard");
  const Target target = data.target();
  return parse_loss(target == Target::label   ? "softmax"
                    : target == Target::score ? "cosine"
                                              : "mnrl");
}

void check_suits(const TextDataset& data, const LossKind& loss, const std::string& where) {
  const std::size_t columns = data.columns().size();
  if (columns < loss.fewest || columns > loss.most ||
      std::ranges::find(loss.targets, data.target()) == loss.targets.end())
    fail_input(where, ": loss ", loss.name, " needs ", loss.needs);
  if (!(loss.traits & kBinary)) return;
  if (data.num_labels() > 2)
    fail_input(where, ": loss ", loss.name, " needs labels 0 and 1, found ", data.num_labels() - 1);
  if (data.target() != Target::score) return;
  for (std::size_t row = 0; row < data.size(); ++row)
    if (data.score(row) < 0)
      fail_input(where, ": loss ", loss.name, " needs scores from 0 to 1, found ", data.score(row),
                 " in row ", row + 1);
}

Loss make_loss(const LossKind& kind, const LossOptions& options, const SentenceEncoder& encoder,
               int classes) {
  const Loss loss = kind.make(encoder, options, classes);
  if (options.negatives) loss->set_negatives(*options.negatives);
  if (options.matryoshka_dims.empty()) return loss;
  return of_option("--matryoshka-dims", [&] {
    return std::make_shared<models::MatryoshkaLoss>(loss, options.matryoshka_dims);
  });
}

}  // namespace ringlet::cli
