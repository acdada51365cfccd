#include "ringlet/models/losses/matryoshka_loss.h"

#include <algorithm>
#include <functional>

#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/autograd/functions/index.h"
#include "ringlet/autograd/functions/normalize.h"

namespace ringlet::models {

MatryoshkaLoss::MatryoshkaLoss(std::shared_ptr<EmbeddingLoss> inner, std::vector<std::int64_t> dims)
    : EmbeddingLoss(inner->encoder()), inner_(std::move(inner)), dims_(std::move(dims)) {
  const std::int64_t width = encoder().dimension();
  std::ranges::sort(dims_, std::greater());
  if (dims_.empty() || dims_.back() < 1 || dims_.front() > width)
    fail_input("MatryoshkaLoss: expected dimensions from 1 to ", width, ", found ",
               dims_.empty() ? "none" : str(dims_.back() < 1 ? dims_.back() : dims_.front()));
  if (const auto twice = std::ranges::adjacent_find(dims_); twice != dims_.end())
    fail_input("MatryoshkaLoss: expected each dimension once, found ", *twice, " twice");
  if (inner_->parameters().size() != encoder().modules()->parameters().size())
    fail_input("MatryoshkaLoss: expected a loss without parameters, found ", inner_->kind());
  register_module("loss", inner_);
}

std::string MatryoshkaLoss::describe(std::size_t dataset) const {
  std::string text = inner_->describe(dataset) + ", dimensions";
  for (const std::int64_t dim : dims_) text += str(' ', dim);
  return text;
}

Variable MatryoshkaLoss::of_embeddings(const Variable& embeddings, const PackedBatch& batch) const {
  const auto value = [&](std::int64_t dim) {
    const Variable cut = autograd::narrow(embeddings, 1, 0, dim);
    return inner_->of_embeddings(autograd::normalize(cut), batch);
  };
  Variable sum = value(dims_[0]);
  for (std::size_t i = 1; i < dims_.size(); ++i) sum = sum + value(dims_[i]);
  return sum;
}

}  // namespace ringlet::models
