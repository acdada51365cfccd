#include "ringlet/train/cli/model_card.h"

#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/model_card.h"

namespace ringlet::cli {

std::string card_text(const TrainPlan& plan, const models::SentenceEncoder& encoder,
                      const Losses& losses, const train::TrainingArguments& arguments,
                      const train::TrainingResult& result) {
  train::ModelCard card;
  if (!from_scratch(plan.options)) card.base_model = plan.options.model.model;
  const std::vector<std::string> trained = train::short_names(plan.data.datasets());
  for (std::size_t i = 0; i < trained.size(); ++i)
    card.train_datasets.push_back({plan.data.sources[i].dataset, trained[i], losses.kinds[i]});
  for (const EvaluationData& eval : plan.data.eval) {
    if (eval.has_evaluator()) card.evaluators.push_back({eval.kind(), eval.name});
    if (!eval.dataset) continue;
    card.eval_datasets.push_back(
        {eval.dataset, eval.name, eval.source ? losses.kinds[*eval.source] : ""});
  }
  card.metrics = arguments.output_dir / train::kMetrics;
  if (arguments.load_best_model_at_end && result.best) card.step = result.best->step;
  return train::model_card(card, encoder, arguments);
}

}  // namespace ringlet::cli
