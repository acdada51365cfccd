// Models that huggingface_hub has downloaded: its documentation, "Understand caching".
#pragma once

#include <filesystem>

namespace ringlet::models {

/// The folder of "organisation/name" in the local cache of Hugging Face, at the commit of
/// refs/main. A name alone has the organisation sentence-transformers, or none. The
/// caches are SENTENCE_TRANSFORMERS_HOME, then HF_HUB_CACHE, else HF_HOME/hub, else
/// ~/.cache/huggingface/hub. `model` itself if it is a folder, or if no cache has it.
std::filesystem::path cached_folder(const std::filesystem::path& model);

}  // namespace ringlet::models
