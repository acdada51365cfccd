#include "ringlet/core/io/safetensors.h"
#include "ringlet/core/io/json.h"

#include <cstring>
#include <set>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/safetensors_header.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

}  // namespace

SafeTensors SafeTensors::open(const fs::path& path) {
  SafeTensors out;
  out.path_ = path;
  if (folder_exists(path)) {
    out.path_ = path / "model.safetensors";
    if (!path_exists(out.path_)) out.path_ = path / "model.safetensors.index.json";
    if (!path_exists(out.path_))
      fail_input(path.string(), ": expected model.safetensors or model.safetensors.index.json");
  }
  if (out.path_.extension() == ".json") {
    out.open_index(out.path_);
  } else {
    out.open_file(out.path_);
  }
  return out;
}

void SafeTensors::open_file(const fs::path& path) {
  const auto file = std::make_shared<MappedFile>(path);
  const std::string_view text = file->text();
  const std::size_t length = safetensors::header_bytes(path, text);
  const Json header =
      safetensors::parse_object(path, text.substr(safetensors::kLengthBytes, length));
  if (header.contains(safetensors::kMetadata))
    safetensors::read_metadata(path, header[safetensors::kMetadata], metadata_);

  const auto data = file->bytes().subspan(safetensors::kLengthBytes + length);
  // Tensors are views of the mapping; its pages are copied on write.
  const auto storage = std::make_shared<Storage>(const_cast<std::byte*>(data.data()), data.size(),
                                                 Device{}, [file] {});
  for (safetensors::HeaderEntry& entry : safetensors::read_entries(path, header, data.size())) {
    names_.push_back(entry.name);
    const bool added = entries_
                           .try_emplace(entry.name, Entry{storage, entry.begin, entry.shape,
                                                          entry.dtype, path, entry.refusal})
                           .second;
    if (!added) fail_input(path.string(), ": tensor ", quote(entry.name), " is in two files");
  }
}

void SafeTensors::open_index(const fs::path& path) {
  const MappedFile file(path);
  const Json index = safetensors::parse_object(path, file.text());
  const Json* map = index.find("weight_map");
  if (map == nullptr || !map->is_object()) fail_input(path.string(), ": expected a weight_map");
  std::set<std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || shard.text().empty() ||
        shard.text() != fs::path(shard.text()).filename().string())
      fail_input(path.string(), ": weight_map ", quote(name),
                 ": expected a file name without folder");
    shards.insert(shard.text());
  }
  for (const std::string& shard : shards) open_file(path.parent_path() / shard);
  for (const auto& [name, shard] : map->items()) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.path.filename() != shard.text())
      fail_input(path.string(), ": tensor ", quote(name), " is not in ", quote(shard.text()));
  }
}

const SafeTensors::Entry& SafeTensors::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail_input(path_.string(), ": has no tensor ", quote(name));
  const Entry& entry = found->second;
  if (!entry.refusal.empty())
    fail_input(entry.path.string(), ": tensor ", quote(name), ": ", entry.refusal);
  return entry;
}

const Shape& SafeTensors::shape(const std::string& name) const { return entry(name).shape; }

DType SafeTensors::dtype(const std::string& name) const { return entry(name).dtype; }

Tensor SafeTensors::load(const std::string& name) const {
  const Entry& source = entry(name);
  const std::byte* data = source.file->data() + source.begin;
  if (reinterpret_cast<std::uintptr_t>(data) % itemsize(source.dtype) == 0)
    return Tensor(source.file, source.begin, source.shape, source.dtype);
  Tensor out = empty(source.shape, source.dtype, Device{});
  if (out.nbytes() > 0) std::memcpy(out.mutable_bytes(), data, out.nbytes());
  return out;
}

void SafeTensors::load_into(const std::string& name, Tensor& out) const {
  const Entry& source = entry(name);
  if (!(source.shape == out.shape()))
    fail_input(source.path.string(), ": tensor ", quote(name), " has shape ", source.shape,
               ", expected ", out.shape());
  out.copy_(load(name));
}

}  // namespace ringlet
