#include "ringlet/models/batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/models/config.h"

namespace ringlet::models {
namespace {

Tensor ints(const std::vector<std::int32_t>& values, const Shape& shape) {
  return tensor(values, shape, Device{});
}

constexpr Tensor PackedBatch::*kParts[] = {
    &PackedBatch::token_ids,    &PackedBatch::token_index, &PackedBatch::counted_position,
    &PackedBatch::positions,    &PackedBatch::cu_seqlens,  &PackedBatch::lengths,
    &PackedBatch::sentence_ids, &PackedBatch::labels};

/// visit(part, offset) for each defined tensor, laid out contiguously; returns the bytes of all.
template <class Visit>
std::size_t for_parts(PackedBatch& batch, Visit&& visit) {
  constexpr std::size_t kAlignment = 256;  // as for separate allocations
  std::size_t offset = 0;
  for (Tensor PackedBatch::*const part : kParts) {
    if (!(batch.*part).defined()) continue;
    const std::size_t nbytes = (batch.*part).nbytes();
    visit(batch.*part, offset);
    offset += (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return offset;
}

bool on_the_host(const PackedBatch& batch) {
  return std::all_of(std::begin(kParts), std::end(kParts), [&](Tensor PackedBatch::*part) {
    return !(batch.*part).defined() || (batch.*part).device().type == DeviceType::cpu;
  });
}

/// All tensors of a batch on the host in one buffer (n) u8.
Tensor side_by_side(PackedBatch batch) {
  const std::size_t nbytes = for_parts(batch, [](const Tensor&, std::size_t) {});
  Tensor bytes = zeros({static_cast<std::int64_t>(nbytes)}, DType::u8, Device{});
  for_parts(batch, [to = bytes.mutable_bytes()](const Tensor& part, std::size_t offset) {
    std::memcpy(to + offset, part.bytes(), part.nbytes());
  });
  return bytes;
}

/// The values of `batch`, with tensors of its shapes as views of `bytes`, made by side_by_side().
PackedBatch over(const Tensor& bytes, PackedBatch batch) {
  for_parts(batch, [&](Tensor& part, std::size_t offset) {
    part = Tensor(bytes.storage(), offset, part.shape(), part.dtype());
  });
  return batch;
}

/// Rows of `from` (n, ...) followed by zeros, `rows` in total.
Tensor with_zeros(const Tensor& from, std::int64_t rows) {
  std::vector<std::int32_t> values = from.to_vector<std::int32_t>();
  const std::int64_t width = from.dim() == 2 ? from.size(1) : 1;
  values.resize(static_cast<std::size_t>(rows * width));
  return tensor(values, from.dim() == 2 ? Shape{rows, width} : Shape{rows}, Device{});
}

Tensor differences(const std::vector<std::int32_t>& starts) {
  std::vector<std::int32_t> lengths;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) lengths.push_back(starts[s + 1] - starts[s]);
  return tensor(lengths, {static_cast<std::int64_t>(lengths.size())}, Device{});
}

}  // namespace

PackedBatch PackedBatch::to(Device device) const {
  if (device.type != DeviceType::cpu && on_the_host(*this))
    return over(side_by_side(*this).to(device), *this);
  PackedBatch out = *this;
  for (Tensor PackedBatch::*const part : kParts)
    if ((out.*part).defined()) out.*part = (out.*part).to(device);
  return out;
}

void PackedBatch::fill_(const PackedBatch& batch) {
  const Tensor values = side_by_side(batch);
  const std::shared_ptr<Storage> storage = token_ids.storage();
  RINGLET_CHECK_EQ(values.nbytes(), storage->nbytes(), "[batch] bytes of one with other shapes");
  Tensor mine(storage, 0, values.shape(), values.dtype());
  mine.copy_(values);
  *this = over(mine, batch);
}

PackedBatch PackedBatch::rows_between(std::int64_t begin, std::int64_t end) const {
  std::vector<std::size_t> selected(static_cast<std::size_t>(end - begin));
  std::iota(selected.begin(), selected.end(), static_cast<std::size_t>(begin));
  return select(selected);
}

std::vector<PackedBatch> PackedBatch::parts(std::int64_t n) const {
  std::vector<PackedBatch> all;
  for (std::int64_t k = 0; k < n; ++k)
    all.push_back(rows_between(rows * k / n, rows * (k + 1) / n));
  return all;
}

PackedBatch PackedBatch::column(std::int64_t c) const {
  RINGLET_CHECK(c >= 0 && c < columns, "[batch] column ", c, " of ", columns);
  const std::int64_t first = c * rows, last = first + rows;
  const Tensor starts = cu_seqlens.slice(first, last + 1);
  const auto begin = starts[0].item<std::int32_t>(), end = starts[-1].item<std::int32_t>();
  PackedBatch out = *this;
  out.columns = 1;
  out.token_ids = token_ids.slice(begin, end);
  out.token_index = token_index.slice(begin, end);
  out.counted_position = counted_position.slice(begin, end);
  out.positions = positions.slice(begin, end);
  out.cu_seqlens = sub(starts, scalar_like(begin, starts));
  if (lengths.defined()) out.lengths = lengths.slice(first, last);
  out.sentence_ids = sentence_ids.slice(first, last);
  return out;
}

PackedBatch PackedBatch::select(std::span<const std::size_t> chosen) const {
  const auto starts = cu_seqlens.to_vector<std::int32_t>();
  const auto ids = token_ids.to_vector<std::int32_t>(),
             names = sentence_ids.to_vector<std::int32_t>();
  const auto sentence = [&](std::int64_t c, std::size_t row) {
    return static_cast<std::size_t>(c * rows) + row;
  };
  BatchBuilder builder(columns);
  for (const std::size_t row : chosen) {
    std::vector<std::span<const std::int32_t>> texts;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::size_t s = sentence(c, row);
      texts.emplace_back(ids.data() + starts[s], ids.data() + starts[s + 1]);
    }
    builder.add_row(texts, names[row] / columns);
  }
  PackedBatch out = *this;
  const PackedBatch built = builder.build();
  for (Tensor PackedBatch::*const part :
       {&PackedBatch::token_ids, &PackedBatch::token_index, &PackedBatch::counted_position,
        &PackedBatch::positions, &PackedBatch::cu_seqlens, &PackedBatch::sentence_ids})
    out.*part = built.*part;
  out.rows = built.rows;
  out.ranks = 0;  // of the caller's batch
  out.max_length = built.max_length;
  out.real_tokens = built.real_tokens;
  out.padded_tokens = built.padded_tokens;
  if (lengths.defined()) {
    const auto all = lengths.to_vector<std::int32_t>();
    std::vector<std::int32_t> real;
    for (std::int64_t c = 0; c < columns; ++c)
      for (const std::size_t row : chosen) real.push_back(all[sentence(c, row)]);
    out.real_tokens = std::accumulate(real.begin(), real.end(), std::int64_t{0});
    out.lengths = ints(real, {out.sentences()});
  }
  if (labels.defined()) {
    Shape shape = labels.shape();
    shape[0] = out.rows;
    out.labels = empty(shape, labels.dtype(), labels.device());
    for (std::size_t i = 0; i < chosen.size(); ++i)
      out.labels[static_cast<std::int64_t>(i)].copy_(labels[static_cast<std::int64_t>(chosen[i])]);
  }
  return out;
}

void BatchBuilder::add_row(std::span<const std::span<const std::int32_t>> columns,
                           std::int64_t global_row) {
  RINGLET_CHECK_EQ(columns.size(), ids_.size(), "[batch] columns of a row");
  for (std::size_t c = 0; c < columns.size(); ++c) {
    Column& column = ids_[c];
    const std::size_t begin = column.tokens.size();
    column.tokens.insert(column.tokens.end(), columns[c].begin(), columns[c].end());
    column.sentences.push_back({global_row, begin, column.tokens.size()});
  }
}

void BatchBuilder::add_embedding(std::span<const float> values) {
  embeddings_.insert(embeddings_.end(), values.begin(), values.end());
}

PackedBatch BatchBuilder::build(std::int64_t global_rows, bool padded, std::int32_t pad_id) const {
  PackedBatch batch;
  batch.columns = static_cast<std::int64_t>(ids_.size());
  batch.rows = static_cast<std::int64_t>(ids_[0].sentences.size());
  batch.global_rows = global_rows ? global_rows : batch.rows;

  std::vector<std::int32_t> ids, index, counts, positions, starts{0}, lengths, sentence_ids;
  for (std::size_t c = 0; c < ids_.size(); ++c) {
    std::size_t longest = 0;
    for (const Sentence& s : ids_[c].sentences) longest = std::max(longest, s.end - s.begin);
    for (const Sentence& s : ids_[c].sentences) {
      const std::size_t length = s.end - s.begin;
      const auto id =
          static_cast<std::int32_t>(s.global_row * batch.columns + static_cast<std::int64_t>(c));
      std::int32_t counted = kCountedPadding;
      for (std::size_t t = 0; t < (padded ? longest : length); ++t) {
        ids.push_back(t < length ? ids_[c].tokens[s.begin + t] : pad_id);
        index.push_back(static_cast<std::int32_t>(t));
        counts.push_back(ids.back() == kCountedPadding ? kCountedPadding : ++counted);
        positions.insert(positions.end(), {id, static_cast<std::int32_t>(t)});
      }
      starts.push_back(static_cast<std::int32_t>(ids.size()));
      lengths.push_back(static_cast<std::int32_t>(length));
      sentence_ids.push_back(id);
      batch.real_tokens += static_cast<std::int64_t>(length);
      batch.padded_tokens += static_cast<std::int64_t>(longest);
    }
    batch.max_length = std::max(batch.max_length, static_cast<std::int64_t>(longest));
  }
  const auto tokens = static_cast<std::int64_t>(ids.size());
  batch.token_ids = ints(ids, {tokens});
  batch.token_index = ints(index, {tokens});
  batch.counted_position = ints(counts, {tokens});
  batch.positions = ints(positions, {tokens, 2});
  batch.cu_seqlens = ints(starts, {batch.sentences() + 1});
  batch.sentence_ids = ints(sentence_ids, {batch.sentences()});
  if (padded) batch.lengths = ints(lengths, {batch.sentences()});
  if (!labels_.empty()) batch.labels = tensor(labels_, {batch.rows}, Device{});
  if (!scores_.empty()) batch.labels = tensor(scores_, {batch.rows}, Device{});
  if (!embeddings_.empty())
    batch.labels =
        tensor(embeddings_,
               {batch.rows, static_cast<std::int64_t>(embeddings_.size()) / batch.rows}, Device{});
  return batch;
}

PackedBatch filled_up(const PackedBatch& batch, std::int64_t tokens) {
  RINGLET_CHECK(batch.sentences() > 0, "[batch] no sentence to fill up to ", tokens, " tokens");
  RINGLET_CHECK(tokens >= batch.tokens(), "[batch] ", batch.tokens(), " tokens cannot be filled up",
                " to ", tokens);
  check_cu_seqlens("batch", batch.cu_seqlens, batch.tokens());
  if (batch.lengths.defined()) check_lengths("batch", batch.lengths, batch.cu_seqlens);
  PackedBatch out = batch;
  std::vector<std::int32_t> starts = batch.cu_seqlens.to_vector<std::int32_t>();
  if (!batch.lengths.defined()) out.lengths = differences(starts);
  starts.back() = static_cast<std::int32_t>(tokens);
  out.cu_seqlens = tensor(starts, batch.cu_seqlens.shape(), Device{});
  // Every vocabulary has id 0, and every table of positions a row 0.
  out.token_ids = with_zeros(batch.token_ids, tokens);
  out.token_index = with_zeros(batch.token_index, tokens);
  out.counted_position = with_zeros(batch.counted_position, tokens);
  out.positions = with_zeros(batch.positions, tokens);
  return out;
}

}  // namespace ringlet::models
