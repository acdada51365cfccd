#include "ringlet/train/evaluators/encode_together.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <vector>

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/train/data/draws.h"

namespace ringlet::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 8192;
constexpr const char* kName = "embeddings";

/// Rank 0's rows where it has them, otherwise none on any rank.
std::optional<Tensor> found_by_first(const EmbeddingCache& cache, const std::string& prompt,
                                     std::span<const std::string> texts, std::int64_t columns,
                                     const comm::Group& group) {
  std::optional<Tensor> rows;
  if (!cache.is_open()) return rows;
  if (group.rank() == 0) rows = cache.find(prompt, texts);
  if (group.size() == 1) return rows;
  if (group.all_gather_bytes(rows ? "found" : "")[0].empty()) return std::nullopt;
  Tensor table = rows ? *rows : zeros({std::ssize(texts), columns}, DType::f32, Device{});
  comm::all_reduce_filled(group, table);
  return table;
}

}  // namespace

std::optional<std::size_t> row_not_finite(const Tensor& table) {
  const std::span values(table.data<float>(), static_cast<std::size_t>(table.numel()));
  const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
  if (bad == values.end()) return std::nullopt;
  return static_cast<std::size_t>(bad - values.begin()) / static_cast<std::size_t>(table.size(1));
}

Tensor encode_together(const models::SentenceEncoder& model, std::span<const std::string> texts,
                       const models::EncodeOptions& options, const comm::Group& group) {
  models::EncodeOptions mine = options;
  mine.rank = static_cast<std::size_t>(group.rank());
  mine.ranks = static_cast<std::size_t>(group.size());
  const Tensor all = model.encode(texts, mine);
  comm::all_reduce_filled(group, all);
  if (const auto row = row_not_finite(all))
    fail_input("the embedding of ", quote(texts[*row]), " is not finite");
  return all;
}

models::EncodeOptions for_role(TextRole role, const models::SentenceEncoder& model,
                               models::EncodeOptions options) {
  if (role == TextRole::plain || options.prompt_name || options.prompt) return options;
  const std::string name = role == TextRole::query ? "query" : "document";
  options.prompt_name = model.sentence_config().prompts.contains(name) ? name : "";
  return options;
}

Tensor encode_as(TextRole role, const models::SentenceEncoder& model,
                 std::span<const std::string> texts, const models::EncodeOptions& options,
                 const comm::Group& group) {
  return encode_together(model, texts, for_role(role, model, options), group);
}

EmbeddingCache::EmbeddingCache(fs::path folder, std::uint64_t model)
    : folder_(std::move(folder)), model_(model) {
  make_folders(folder_);
}

std::optional<Tensor> EmbeddingCache::find(const std::string& prompt,
                                           std::span<const std::string> texts) const {
  if (folder_.empty()) return std::nullopt;
  const fs::path file = file_of(prompt, texts);
  if (!path_exists(file)) return std::nullopt;
  return SafeTensors::open(file).load(kName).clone();
}

void EmbeddingCache::add(const std::string& prompt, std::span<const std::string> texts,
                         const Tensor& embeddings) const {
  if (!folder_.empty()) save_safetensors(file_of(prompt, texts), {{kName, embeddings}});
}

fs::path EmbeddingCache::file_of(const std::string& prompt,
                                 std::span<const std::string> texts) const {
  std::uint64_t key = mix64(model_, hash_text(prompt), texts.size());
  for (const std::string& text : texts) key = mix64(key, hash_text(text));
  return folder_ / fmt::format("{:016x}.safetensors", key);
}

std::uint64_t hash_folder(const fs::path& folder) {
  const auto decides = [](const fs::path& kind) {
    return kind == ".json" || kind == ".safetensors" || kind == ".txt";
  };
  std::vector<fs::path> files;
  std::error_code error;
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator at(folder, kFollow, error), end; !error && at != end;
       at.increment(error))
    if (decides(at->path().extension()) && at->is_regular_file(error)) files.push_back(at->path());
  if (error) fail_input(folder.string(), ": cannot read: ", error.message());
  std::ranges::sort(files);
  std::uint64_t key = 0;
  for (const fs::path& file : files)
    key = mix64(key, hash_text(file.lexically_relative(folder).string()),
                hash_text(MappedFile(file).text()));
  return key;
}

void for_each_block(const models::SentenceEncoder& model, std::span<const std::string> texts,
                    const models::EncodeOptions& options, const EmbeddingCache& cache,
                    const comm::Group& group, const std::function<void(const Tensor&)>& use) {
  const std::string prompt = model.prompt(options);
  const std::int64_t columns = model.encoded_dimension(options.truncate_dim);
  for (std::size_t begin = 0; begin < texts.size(); begin += kBlock) {
    const auto block = texts.subspan(begin, std::min(kBlock, texts.size() - begin));
    std::optional<Tensor> rows = found_by_first(cache, prompt, block, columns, group);
    if (!rows) {
      rows = encode_together(model, block, options, group);
      if (group.rank() == 0) cache.add(prompt, block, *rows);
    }
    use(*rows);
  }
}

Tensor embed_blocks(const models::SentenceEncoder& model, std::span<const std::string> texts,
                    const models::EncodeOptions& options, const comm::Group& group,
                    const EmbeddingCache& cache) {
  Tensor all = empty({std::ssize(texts), model.encoded_dimension(options.truncate_dim)}, DType::f32,
                     Device{});
  std::int64_t done = 0;
  for_each_block(model, texts, options, cache, group, [&](const Tensor& rows) {
    all.slice(done, done + rows.size(0)).copy_(rows);
    done += rows.size(0);
  });
  return all;
}

}  // namespace ringlet::train
