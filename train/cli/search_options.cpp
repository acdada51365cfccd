#include "ringlet/train/cli/search_options.h"

#include <fmt/format.h>

#include "commit.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/models/folder.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/data/draws.h"
#include "ringlet/train/report/progress.h"

namespace ringlet::cli {
namespace {

using train::TextRole;

void add_prompt(Command& command, const std::string& texts, models::EncodeOptions& how,
                const std::string& usual) {
  command.add("--" + texts + "-prompt-name", how.prompt_name,
              "The folder's prompt before each text (" + usual + ", if there is one)");
  command.add("--" + texts + "-prompt", how.prompt, "The text itself instead").excludes = {
      "--" + texts + "-prompt-name"};
}

/// All that decides about embeddings but prompts and texts; another build or instruction set may
/// round otherwise.
std::uint64_t model_key(const ModelOptions& options) {
  const std::string settings =
      str(RINGLET_COMMIT, ' ', cpu::name(cpu::isa()), ' ', options.device, ' ', options.dtype, ' ',
          options.matmul_precision, ' ', options.max_length, ' ', options.normalize, ' ',
          options.pooling ? static_cast<int>(*options.pooling) : -1);
  return train::mix64(train::hash_folder(models::cached_folder(options.model)),
                      train::hash_text(settings));
}

train::EmbeddingCache open_cache(const SearchOptions& options) {
  if (options.cache_folder.empty()) return {};
  // weakly_canonical() alone leaves the name of a missing folder relative.
  const auto whole = [](const std::filesystem::path& folder) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(folder));
  };
  const auto inside = whole(options.cache_folder)
                          .lexically_relative(whole(models::cached_folder(options.model.model)));
  if (inside.empty() || *inside.begin() != "..")
    fail_input("--cache-folder ", options.cache_folder.string(),
               ": expected one outside the model's");
  return {options.cache_folder, model_key(options.model)};
}

}  // namespace

void add_search_options(Command& command, SearchOptions& options) {
  add_model_options(command, options.model, "A Sentence Transformers folder", "--model,MODEL");
  add_prompt(command, "query", options.queries, "query");
  add_prompt(command, "corpus", options.corpus, "document");
  command.add("--batch-tokens", options.queries.batch_tokens, Range{1, 1 << 24},
              "Tokens of one forward, about");
  command.add("--cache-folder", options.cache_folder,
              "Keeps embeddings: a run that was stopped continues, another one of the same "
              "model and texts computes none");
  add_timeout(command, options.timeout);
}

void check_search_options(const SearchOptions& options) {
  if (!options.cache_folder.empty()) check_writable_folder("--cache-folder", options.cache_folder);
}

BlockEmbedder::BlockEmbedder(const SearchOptions& options, const models::SentenceEncoder& model,
                             const comm::Group& world)
    : model_(model),
      world_(world),
      cache_(open_cache(options)),
      queries_(for_role(TextRole::query, model, options.queries)),
      corpus_(for_role(TextRole::document, model, options.corpus)) {
  corpus_.batch_tokens = queries_.batch_tokens;
  of_option("--query-prompt-name", [&] { return model.prompt(queries_); });  // or it is refused
  of_option("--corpus-prompt-name", [&] { return model.prompt(corpus_); });
}

Tensor BlockEmbedder::queries(const std::vector<std::string>& texts) const {
  Tensor all = empty({std::ssize(texts), model_.encoded_dimension()}, DType::f32, Device{});
  std::int64_t done = 0;
  embed("queries", texts, queries_, [&](const Tensor& rows) {
    all.slice(done, done + rows.size(0)).copy_(rows);
    done += rows.size(0);
  });
  return all;
}

void BlockEmbedder::corpus(const std::vector<std::string>& texts,
                           const std::function<void(const Tensor&)>& use) const {
  embed("documents", texts, corpus_, use);
}

void BlockEmbedder::embed(const char* what, const std::vector<std::string>& texts,
                          const models::EncodeOptions& how,
                          const std::function<void(const Tensor&)>& use) const {
  const double start = steady_seconds();
  std::int64_t done = 0;
  train::for_each_block(model_, texts, how, cache_, world_, [&](const Tensor& rows) {
    use(rows);
    done += rows.size(0);
    if (world_.rank() != 0) return;
    fmt::print(stderr, "{} of {} {}, {} texts/s\n", fmt::group_digits(done),
               fmt::group_digits(std::ssize(texts)), what,
               train::format_count(static_cast<double>(done) / (steady_seconds() - start)));
  });
}

}  // namespace ringlet::cli
