#include "ringlet/train/data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

namespace ringlet::train {

TextDataset::TextDataset(std::string name, std::vector<std::string> columns, Target target)
    : name_(std::move(name)), columns_(std::move(columns)), target_(target) {
  RINGLET_CHECK(!columns_.empty() && columns_.size() <= kMaxColumns, "[TextDataset] ", name_,
                ": expected 1 to ", kMaxColumns, " text columns, not ", columns_.size());
}

RowTexts TextDataset::texts(std::size_t row) const {
  RINGLET_CHECK(row < rows_, "[TextDataset] ", name_, ": row ", row, " of ", rows_);
  RowTexts texts;
  texts.count = columns_.size();
  const std::size_t first = row * columns_.size();
  std::uint64_t begin = first == 0 ? 0 : ends_[first - 1];
  for (std::size_t column = 0; column < texts.count; ++column) {
    const std::uint64_t end = ends_[first + column];
    texts.columns[column] = std::string_view(text_).substr(begin, end - begin);
    begin = end;
  }
  return texts;
}

int TextDataset::label(std::size_t row) const {
  RINGLET_CHECK(row < labels_.size(), "[TextDataset] ", name_, ": row ", row, " has no label (",
                labels_.size(), " labels)");
  return labels_[row];
}

float TextDataset::score(std::size_t row) const {
  RINGLET_CHECK(row < scores_.size(), "[TextDataset] ", name_, ": row ", row, " has no score (",
                scores_.size(), " scores)");
  return scores_[row];
}

std::span<const float> TextDataset::embedding(std::size_t row) const {
  RINGLET_CHECK(target_ == Target::embedding && row < rows_, "[TextDataset] ", name_, ": row ", row,
                " has no embedding");
  const auto size = static_cast<std::size_t>(embeddings_.size(1));
  return {embeddings_.data<float>() + row * size, size};
}

void TextDataset::set_embeddings(Tensor table, std::string from) {
  RINGLET_CHECK(target_ == Target::none && table.dim() == 2 &&
                    table.size(0) == static_cast<std::int64_t>(rows_),
                "[TextDataset] ", name_, ": embeddings of shape ", table.shape(), " for ", rows_,
                " rows without a target");
  target_ = Target::embedding;
  embeddings_ = table.to(Device{}).to(DType::f32);
  embeddings_from_ = std::move(from);
}

TextDataset TextDataset::select(std::span<const std::size_t> rows) const {
  const bool has_embeddings = target_ == Target::embedding;
  TextDataset out(name_, columns_, has_embeddings ? Target::none : target_);
  for (const std::size_t row : rows) {
    const RowTexts columns = texts(row);
    const double target = target_ == Target::label   ? label(row)
                          : target_ == Target::score ? double{score(row)}
                                                     : 0;
    out.add_row({columns.begin(), columns.end()}, target);
  }
  if (!has_embeddings) return out;
  Tensor table = empty({std::ssize(rows), embeddings_.size(1)}, DType::f32, Device{});
  for (std::int64_t i = 0; i < std::ssize(rows); ++i)
    table[i].copy_(embeddings_[static_cast<std::int64_t>(rows[static_cast<std::size_t>(i)])]);
  out.set_embeddings(table, embeddings_from_);
  return out;
}

void TextDataset::add_row(std::span<const std::string_view> texts, double target) {
  RINGLET_CHECK_EQ(texts.size(), columns_.size(), "[TextDataset] ", name_, ": texts in a row");
  if (target_ == Target::label) {
    const auto label = static_cast<std::int32_t>(target);
    RINGLET_CHECK(label >= 0 && label == target, "[TextDataset] ", name_, ": label ", target);
    labels_.push_back(label);
    num_labels_ = std::max(num_labels_, label + 1);
  } else if (target_ == Target::score) {
    scores_.push_back(static_cast<float>(target));
  }
  for (const std::string_view text : texts) {
    text_ += text;
    ends_.push_back(text_.size());
  }
  ++rows_;
}

std::string TextDataset::digest() const {
  const auto of = [](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  std::string parts;
  for (const std::string& column : columns_) parts += of(column);
  return short_sha256(parts + of(text_) + of(ends_) + of(labels_) + of(scores_) +
                      of(embeddings_from_));
}

void TextDataset::shrink_to_fit() {
  text_.shrink_to_fit();
  ends_.shrink_to_fit();
  labels_.shrink_to_fit();
  scores_.shrink_to_fit();
}

std::vector<std::string> short_names(const Datasets& datasets) {
  std::vector<std::string> files;
  for (const auto& dataset : datasets) files.push_back(dataset->name());
  return short_names(files);
}

std::vector<std::string> short_names(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const std::string& file : files) {
    const std::string stem = std::filesystem::path(file).stem().string();
    std::string name = stem;
    for (int number = 2; !taken.insert(name).second; ++number) name = str(stem, '-', number);
    names.push_back(name);
  }
  return names;
}

}  // namespace ringlet::train
