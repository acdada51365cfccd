#include "ringlet/core/io/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json_node.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

/// The header's length, little-endian, which precedes the header.
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::size_t kHeaderAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

/// The dtype's name in capitals: F32, BF16, …
std::string format_name(DType dtype) {
  std::string text(name(dtype));
  for (char& letter : text) letter = static_cast<char>(std::toupper(letter));
  return text;
}

std::optional<DType> dtype_named(const std::string& text) {
  if (text == "BOOL") return DType::u8;
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8})
    if (format_name(dtype) == text) return dtype;
  return std::nullopt;
}

JsonNode parse(const fs::path& path, std::string_view text) {
  return {Json::parse(text, path.string(), Json::Repeated::refused), path.string()};
}

/// The size of the header in a file with this text.
std::size_t header_bytes(const fs::path& path, std::string_view text) {
  // The header is an object, so that its length alone cannot be taken for another kind of file.
  if (text.size() <= kLengthBytes || text[kLengthBytes] != '{') check_kind(text, path.string());
  if (text.size() < kLengthBytes) fail_input(path.string(), ": too short for a safetensors file");
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(text[i]);
  if (length > kMaxHeaderBytes || length > text.size() - kLengthBytes)
    fail_input(path.string(), ": header of ", length, " bytes in a file of ", text.size(),
               " bytes; not a safetensors file, or cut short");
  return length;
}

std::vector<std::int64_t> counts(const JsonNode& list) {
  std::vector<std::int64_t> all;
  for (const JsonNode& item : list.elements())
    all.push_back(static_cast<std::int64_t>(item.count(std::numeric_limits<std::int64_t>::max())));
  return all;
}

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

/// {"dtype": …, "shape": […], "data_offsets": [begin, end]}
SafeTensors::Entry SafeTensors::read_entry(const JsonNode& tensor, std::size_t data_bytes) {
  Entry entry;
  const JsonNode offsets = tensor.at("data_offsets"), shape = tensor.at("shape");
  const std::vector<std::int64_t> range = counts(offsets), sizes = counts(shape);
  if (range.size() != 2 || range[0] > range[1] || !std::cmp_less_equal(range[1], data_bytes))
    offsets.expected(str("[begin, end] in the ", data_bytes, " bytes of data"));
  entry.begin = static_cast<std::size_t>(range[0]);
  entry.end = static_cast<std::size_t>(range[1]);
  const std::string& type = tensor.at("dtype").text();
  const std::optional<DType> dtype = dtype_named(type);
  if (!dtype) {
    entry.refusal = str("dtype ", shown(type), " is not supported");
    return entry;
  }
  entry.dtype = *dtype;
  std::size_t nbytes = itemsize(entry.dtype);
  // A size of 0 makes the product 0, but no partial product before it may overflow.
  for (const std::int64_t size : sizes)
    if (__builtin_mul_overflow(nbytes, size, &nbytes)) shape.expected("fewer elements");
  if (nbytes != entry.end - entry.begin)
    fail_input(tensor.name(), ": its shape needs ", nbytes, " bytes, data_offsets give ",
               entry.end - entry.begin);
  if (std::ssize(sizes) > Shape::kMaxDim)
    entry.refusal =
        str("has ", sizes.size(), " dimensions, at most ", Shape::kMaxDim, " are supported");
  else
    entry.shape = sizes;
  return entry;
}

void SafeTensors::open_file(const fs::path& path) {
  const auto file = std::make_shared<MappedFile>(path);
  const std::string_view text = file->text();
  const std::size_t length = header_bytes(path, text);
  const JsonNode header = parse(path, text.substr(kLengthBytes, length)).object();
  if (header.has(kMetadata))
    for (const auto& [key, value] : header.at(kMetadata).members())
      metadata_.insert_or_assign(key, value.text());

  const auto data = file->bytes().subspan(kLengthBytes + length);
  // Tensors are views of the mapping; its pages are copied on write.
  const auto storage = std::make_shared<Storage>(const_cast<std::byte*>(data.data()), data.size(),
                                                 Device{}, [file] {});
  std::vector<std::pair<std::string, Entry>> entries;
  for (const auto& [name, value] : header.members())
    if (name != kMetadata)
      entries.emplace_back(name, read_entry(value.named(str("tensor ", quote(name))), data.size()));
  std::ranges::stable_sort(entries, {}, [](const auto& entry) {
    return std::pair(entry.second.begin, entry.second.end);
  });
  std::size_t covered = 0;
  for (auto& [name, entry] : entries) {
    if (entry.begin != covered)
      fail_input(path.string(), ": tensor ", quote(name), ": its data begins at byte ", entry.begin,
                 ", expected ", covered, " (data must have neither overlaps nor holes)");
    covered = entry.end;
    entry.file = storage;
    entry.path = path;
    names_.push_back(name);
    if (!entries_.try_emplace(name, std::move(entry)).second)
      fail_input(path.string(), ": tensor ", quote(name), " is in two files");
  }
  if (covered != data.size())
    fail_input(path.string(), ": tensors cover ", covered, " of ", data.size(), " bytes of data");
}

void SafeTensors::open_index(const fs::path& path) {
  const JsonNode map = parse(path, MappedFile(path).text()).at("weight_map");
  std::set<std::string> shards;
  for (const auto& [name, shard] : map.members()) {
    if (shard.text().empty() || shard.text() != fs::path(shard.text()).filename().string())
      shard.expected("a file name without folder");
    shards.insert(shard.text());
  }
  for (const std::string& shard : shards) open_file(path.parent_path() / shard);
  for (const auto& [name, shard] : map.members()) {
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

// ---- writing --------------------------------------------------------------------------------

namespace {

/// The start of a file: the length of the header, then the header.
std::string start_text(const std::vector<SafeTensorsWriter::Entry>& entries,
                       const SafeTensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::size_t begin = 0;
  for (const auto& [name, dtype, shape] : entries) {
    RINGLET_CHECK(name != kMetadata && !header.contains(name), "[safetensors] tensor name ",
                  quote(name), " is reserved or used twice");
    const std::size_t end = begin + static_cast<std::size_t>(shape.numel()) * itemsize(dtype);
    header[name] = {{"dtype", format_name(dtype)},
                    {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  // Spaces align the data, as the format allows.
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

}  // namespace

SafeTensorsWriter::SafeTensorsWriter(const fs::path& path, std::vector<Entry> entries, Role role,
                                     const SafeTensorsMetadata& metadata)
    : path_(path) {
  // Wider elements first, so that all are aligned.
  std::ranges::stable_sort(entries, std::greater(),
                           [](const Entry& entry) { return itemsize(entry.dtype); });
  const std::string start = start_text(entries, metadata);
  std::size_t end = start.size();
  for (const auto& [name, dtype, shape] : entries) {
    places_[name] = {end, shape.numel(), dtype};
    missing_ += shape.numel();
    end += static_cast<std::size_t>(shape.numel()) * itemsize(dtype);
  }
  if (role == Role::alone) {
    file_ = std::make_unique<AtomicFile>(path);
    fd_ = file_->descriptor();
    write_at(0, reinterpret_cast<const std::byte*>(start.data()), start.size());
    return;
  }
  const int flags = role == Role::creates ? O_CREAT | O_EXCL : 0;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (fd_ < 0)
    fail_input(
        path_.string(), ": cannot write: ", std::strerror(errno),
        role == Role::joins ? " (all ranks write to it: the folder must be one for all)" : "");
  if (role == Role::joins) return;
  try {
    int error = EINTR;
    while (error == EINTR) error = ::posix_fallocate(fd_, 0, static_cast<off_t>(end));
    if (error != 0)
      fail_input(path_.string(), ": no room for ", end, " bytes: ", std::strerror(error));
    write_at(0, reinterpret_cast<const std::byte*>(start.data()), start.size());
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SafeTensorsWriter::~SafeTensorsWriter() {
  if (!file_) ::close(fd_);
}

void SafeTensorsWriter::write_at(std::size_t offset, const std::byte* data, std::size_t nbytes) {
  while (nbytes > 0) {
    const ssize_t written = ::pwrite(fd_, data, nbytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_input(path_.string(), ": cannot write: ", std::strerror(errno));
    data += written;
    offset += static_cast<std::size_t>(written);
    nbytes -= static_cast<std::size_t>(written);
  }
}

void SafeTensorsWriter::write(const std::string& name, std::int64_t begin, const Tensor& elements) {
  const auto place = places_.find(name);
  RINGLET_CHECK(place != places_.end(), "[safetensors] ", quote(name), " was not announced");
  const auto& [offset, numel, dtype] = place->second;
  RINGLET_CHECK_EQ(elements.dtype(), dtype, "[safetensors] dtype of ", quote(name));
  RINGLET_CHECK(begin >= 0 && begin + elements.numel() <= numel, "[safetensors] elements ", begin,
                " to ", begin + elements.numel(), " of ", quote(name), ", which has ", numel);
  const Tensor host = elements.device().type == DeviceType::cpu ? elements : elements.to(Device{});
  write_at(offset + static_cast<std::size_t>(begin) * itemsize(dtype), host.bytes(), host.nbytes());
  missing_ -= elements.numel();
}

void SafeTensorsWriter::commit() {
  if (file_) {
    RINGLET_CHECK(missing_ == 0, "[safetensors] ", missing_, " elements were not written");
    return file_->commit();
  }
  while (::fsync(fd_) != 0)
    if (errno != EINTR) fail_input(path_.string(), ": cannot write: ", std::strerror(errno));
}

void save_safetensors(const fs::path& path, const NamedTensors& tensors,
                      const SafeTensorsMetadata& metadata) {
  std::vector<SafeTensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({name, tensor.dtype(), tensor.shape()});
  SafeTensorsWriter writer(path, std::move(entries), SafeTensorsWriter::Role::alone, metadata);
  for (const auto& [name, tensor] : tensors) writer.write(name, 0, tensor);
  writer.commit();
}

}  // namespace ringlet
