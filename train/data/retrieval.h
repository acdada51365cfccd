// Queries, documents, and which documents are relevant: the files of BEIR, and of reranking.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ringlet/train/data/read_options.h"

namespace ringlet::train {

class RowReader;

struct TextsById {
  std::vector<std::string> ids = {};  // distinct
  std::vector<std::string> texts = {};
  FileReport report = {};
};

struct RetrievalData {
  std::string name = {};  // in messages
  TextsById queries = {}, corpus = {};
  std::map<std::string, std::set<std::string>> relevant = {};  // document ids by query id
  FileReport report = {};                                      // of the relevant pairs
};

/// Reads columns "_id" or "id", and "text", of JSON lines, CSV or TSV. Other columns, such as
/// BEIR's "title", are ignored. InputError for an id that occurs twice. `numbered`: rows of a file
/// without ids have their numbers from 0.
TextsById read_texts_by_id(const std::filesystem::path& path, bool numbered = false);

/// The columns of a file of relevant documents: a query's id, a document's id and a score.
bool is_qrels(const std::vector<std::string>& columns);

/// InputError if the first row is one of TREC's relevant pairs: "query 0 document score".
void refuse_trec(const RowReader& rows);

struct RetrievalFiles {
  std::filesystem::path relevant;  // columns query-id, corpus-id, score; a score above 0 counts
  /// Empty: corpus.jsonl, .tsv or .csv (queries.…) in the folder of `relevant`, or the one above.
  std::filesystem::path corpus = {}, queries = {};
  SplitChoice split = {};  // of `relevant`, as in read_dataset
};
/// InputError for a relevant query id that is not among the queries, and without any relevant pair.
/// The same if the corpus has none of the relevant documents.
RetrievalData read_retrieval(const RetrievalFiles& files);

struct RerankingSample {
  std::string query;
  std::vector<std::string> positive, negative;
};

/// Whether a file has the columns of read_reranking.
bool is_reranking(const std::vector<std::string>& columns);

struct RerankingData {
  std::vector<RerankingSample> samples;
  FileReport report;
};

/// Reads JSON lines {"query": TEXT, "positive": [TEXT, …], "negative": [TEXT, …]}; a text alone
/// stands for a list of one. `split` chooses rows as in read_dataset. InputError names the line.
RerankingData read_reranking(const std::filesystem::path& path, const SplitChoice& split = {});

}  // namespace ringlet::train
