#include "ringlet/core/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "ringlet/core/error.h"
#include "ringlet/core/quote.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::size_t kAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

struct FormatDType {
  std::string_view name;
  DType dtype;
};
// The first row of a dtype is the one that is written.
constexpr std::array<FormatDType, 8> kFormatDTypes{{{"F32", DType::f32},
                                                    {"F64", DType::f64},
                                                    {"BF16", DType::bf16},
                                                    {"F16", DType::f16},
                                                    {"I32", DType::i32},
                                                    {"I64", DType::i64},
                                                    {"U8", DType::u8},
                                                    {"BOOL", DType::u8}}};

std::string_view format_name(DType dtype) {
  return std::find_if(kFormatDTypes.begin(), kFormatDTypes.end(),
                      [&](const FormatDType& row) { return row.dtype == dtype; })
      ->name;
}

/// Parses JSON; a name that appears twice in one object is an error, not a silent overwrite.
json parse_json(const fs::path& path, std::string_view text) {
  std::vector<std::set<std::string>> names;
  const auto unique = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(parsed).second)
      fail_input(path.string(), ": ", quote(parsed.get<std::string>()), " appears twice");
    return true;
  };
  try {
    json value = json::parse(text, unique);
    if (value.is_object()) return value;
  } catch (const json::exception& error) {
    fail_input(path.string(), ": header: ", shown(error.what(), 200));
  }
  fail_input(path.string(), ": expected a JSON object");
}

struct HeaderEntry {
  std::string name;
  std::size_t begin = 0;  // bytes in the data
  std::size_t end = 0;
  Shape shape;
  DType dtype = DType::f32;
  std::string refusal;
};

/// One entry {"dtype": …, "shape": […], "data_offsets": [begin, end]} of a header.
class EntryReader {
 public:
  EntryReader(const fs::path& path, const std::string& name, const json& value)
      : path_(path), name_(name), value_(value) {
    if (!value.is_object()) refuse("expected an object");
  }

  HeaderEntry read(std::size_t data_bytes) const {
    HeaderEntry entry;
    entry.name = name_;
    const std::vector<std::uint64_t> offsets = integers("data_offsets");
    if (offsets.size() != 2) refuse("data_offsets must be [begin, end]");
    if (offsets[0] > offsets[1] || offsets[1] > data_bytes)
      refuse("data_offsets [", offsets[0], ", ", offsets[1], "] do not lie in the ", data_bytes,
             " bytes of data");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    read_type(entry);
    return entry;
  }

 private:
  void read_type(HeaderEntry& entry) const {
    const std::string text = dtype();
    const std::vector<std::uint64_t> sizes = integers("shape");
    const auto row = std::find_if(kFormatDTypes.begin(), kFormatDTypes.end(),
                                  [&](const FormatDType& row) { return row.name == text; });
    if (row == kFormatDTypes.end()) {
      entry.refusal = str("dtype ", shown(text), " is not supported");
      return;
    }
    entry.dtype = row->dtype;
    check_size(sizes, entry);
    if (sizes.size() > static_cast<std::size_t>(Shape::kMaxDim)) {
      entry.refusal =
          str("has ", sizes.size(), " dimensions, at most ", Shape::kMaxDim, " are supported");
      return;
    }
    entry.shape = Shape(std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  }

  void check_size(const std::vector<std::uint64_t>& sizes, const HeaderEntry& entry) const {
    std::uint64_t nbytes = itemsize(entry.dtype);
    // One zero makes the product 0, yet no partial product may overflow before it is met.
    for (std::uint64_t size : sizes)
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
          __builtin_mul_overflow(nbytes, size, &nbytes))
        refuse("shape is too large");
    if (nbytes != entry.end - entry.begin)
      refuse("its shape needs ", nbytes, " bytes, data_offsets give ", entry.end - entry.begin);
  }

  std::string dtype() const {
    const auto found = value_.find("dtype");
    if (found == value_.end() || !found->is_string()) refuse("expected a dtype");
    return found->get<std::string>();
  }

  std::vector<std::uint64_t> integers(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end() || !found->is_array()) refuse("expected a list ", quote(key));
    std::vector<std::uint64_t> out;
    for (const json& item : *found) {
      if (!item.is_number_unsigned()) refuse(quote(key), " must hold non-negative integers");
      out.push_back(item.get<std::uint64_t>());
    }
    return out;
  }

  template <class... Args>
  [[noreturn]] void refuse(const Args&... args) const {
    fail_input(path_.string(), ": tensor ", quote(name_), ": ", args...);
  }

  const fs::path& path_;
  const std::string& name_;
  const json& value_;
};

std::size_t header_bytes(const fs::path& path, std::string_view text) {
  if (text.size() < kLengthBytes) fail_input(path.string(), ": too short for a safetensors file");
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(text[i]);
  if (length > kMaxHeaderBytes || length > text.size() - kLengthBytes)
    fail_input(path.string(), ": header of ", length, " bytes in a file of ", text.size(),
               " bytes; not a safetensors file, or cut short");
  return length;
}

void read_metadata(const fs::path& path, const json& value, SafeTensorsMetadata& metadata) {
  if (!value.is_object()) fail_input(path.string(), ": ", kMetadata, " must be an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail_input(path.string(), ": ", kMetadata, ' ', quote(key), " must be a string");
    metadata.insert_or_assign(key, text.get<std::string>());
  }
}

/// The entries of a header, in the order of their data, which they must cover exactly once.
std::vector<HeaderEntry> read_entries(const fs::path& path, const json& header,
                                      std::size_t data_bytes) {
  std::vector<HeaderEntry> entries;
  for (const auto& [name, value] : header.items())
    if (name != kMetadata) entries.push_back(EntryReader(path, name, value).read(data_bytes));
  std::stable_sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::size_t covered = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != covered)
      fail_input(path.string(), ": tensor ", quote(entry.name), ": its data begins at byte ",
                 entry.begin, ", expected ", covered,
                 " (data must have neither overlaps nor holes)");
    covered = entry.end;
  }
  if (covered != data_bytes)
    fail_input(path.string(), ": tensors cover ", covered, " of ", data_bytes, " bytes of data");
  return entries;
}

std::string header_text(const std::vector<SafeTensorsWriter::Entry>& entries,
                        const SafeTensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::size_t begin = 0;
  for (const auto& entry : entries) {
    RINGLET_CHECK(entry.name != kMetadata && !header.contains(entry.name),
                  "[safetensors] tensor name ", quote(entry.name), " is reserved or used twice");
    const std::size_t end =
        begin + static_cast<std::size_t>(entry.shape.numel()) * itemsize(entry.dtype);
    header[entry.name] = {
        {"dtype", format_name(entry.dtype)},
        {"shape", std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())},
        {"data_offsets", {begin, end}}};
    begin = end;
  }
  try {
    std::string text = header.dump();
    // Spaces align the data, as the format allows.
    text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
    return text;
  } catch (const json::exception& error) {
    fail("[safetensors] a name or metadata is not UTF-8: ", error.what());
  }
}

void order_by_width(std::vector<SafeTensorsWriter::Entry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return itemsize(a.dtype) > itemsize(b.dtype);
  });
}

/// The length of the header, and it.
std::string start_text(const std::vector<SafeTensorsWriter::Entry>& entries,
                       const SafeTensorsMetadata& metadata) {
  const std::string header = header_text(entries, metadata);
  std::string start(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    start[i] = static_cast<char>(header.size() >> (8 * i));
  return start + header;
}

}  // namespace

// ---- reading ------------------------------------------------------------------------------

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
  const std::size_t length = header_bytes(path, text);
  const json header = parse_json(path, text.substr(kLengthBytes, length));
  if (header.contains(kMetadata)) read_metadata(path, header[kMetadata], metadata_);

  const auto data = file->bytes().subspan(kLengthBytes + length);
  // Tensors are views of the mapping, whose pages are copied when written.
  const auto storage = std::make_shared<Storage>(const_cast<std::byte*>(data.data()), data.size(),
                                                 Device{}, [file] {});
  for (HeaderEntry& entry : read_entries(path, header, data.size())) {
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
  const json index = parse_json(path, file.text());
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) fail_input(path.string(), ": expected a weight_map");
  std::set<std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || shard.get<std::string>() != fs::path(shard).filename().string() ||
        shard.get<std::string>().empty())
      fail_input(path.string(), ": weight_map ", quote(name),
                 ": expected a file name without folder");
    shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) open_file(path.parent_path() / shard);
  for (const auto& [name, shard] : map->items()) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.path.filename() != shard.get<std::string>())
      fail_input(path.string(), ": tensor ", quote(name), " is not in ",
                 quote(shard.get<std::string>()));
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

// ---- writing ------------------------------------------------------------------------------

SafeTensorsWriter::SafeTensorsWriter(const fs::path& path, std::vector<Entry> entries,
                                     const SafeTensorsMetadata& metadata)
    : entries_(std::move(entries)), file_(path) {
  order_by_width(entries_);
  file_.write(start_text(entries_, metadata));
}

void SafeTensorsWriter::write(const std::string& name, const Tensor& tensor) {
  RINGLET_CHECK(next_ < entries_.size(), "[safetensors] ", quote(name), " was not announced");
  const Entry& expected = entries_[next_];
  RINGLET_CHECK_EQ(name, expected.name, "[safetensors] the next tensor");
  RINGLET_CHECK_EQ(tensor.dtype(), expected.dtype, "[safetensors] dtype of ", quote(name));
  RINGLET_CHECK_EQ(tensor.shape(), expected.shape, "[safetensors] shape of ", quote(name));
  const Tensor host = tensor.device().type == DeviceType::cpu ? tensor : tensor.to(Device{});
  file_.write(std::span(host.bytes(), host.nbytes()));
  ++next_;
}

void SafeTensorsWriter::commit() {
  RINGLET_CHECK(next_ == entries_.size(), "[safetensors] ", next_, " of ", entries_.size(),
                " tensors were written");
  file_.commit();
}

// ---- writing by several -------------------------------------------------------------------

SafeTensorsParts::SafeTensorsParts(const fs::path& path,
                                   std::vector<SafeTensorsWriter::Entry> entries, Role role)
    : path_(path) {
  order_by_width(entries);
  const std::string start = start_text(entries, {{"format", "pt"}});
  std::size_t end = start.size();
  for (const auto& [name, dtype, shape] : entries) {
    places_[name] = {end, shape.numel(), dtype};
    end += static_cast<std::size_t>(shape.numel()) * itemsize(dtype);
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

SafeTensorsParts::~SafeTensorsParts() { ::close(fd_); }

void SafeTensorsParts::write_at(std::size_t offset, const std::byte* data, std::size_t nbytes) {
  while (nbytes > 0) {
    const ssize_t written = ::pwrite(fd_, data, nbytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_input(path_.string(), ": cannot write: ", std::strerror(errno));
    data += written;
    offset += static_cast<std::size_t>(written);
    nbytes -= static_cast<std::size_t>(written);
  }
}

void SafeTensorsParts::write(const std::string& name, std::int64_t begin, const Tensor& elements) {
  const auto place = places_.find(name);
  RINGLET_CHECK(place != places_.end(), "[safetensors] ", quote(name), " was not announced");
  const auto& [offset, numel, dtype] = place->second;
  RINGLET_CHECK_EQ(elements.dtype(), dtype, "[safetensors] dtype of ", quote(name));
  RINGLET_CHECK(begin >= 0 && begin + elements.numel() <= numel, "[safetensors] elements ", begin,
                " to ", begin + elements.numel(), " of ", quote(name), ", which has ", numel);
  const Tensor host = elements.device().type == DeviceType::cpu ? elements : elements.to(Device{});
  write_at(offset + static_cast<std::size_t>(begin) * itemsize(dtype), host.bytes(), host.nbytes());
}

void SafeTensorsParts::sync() {
  while (::fsync(fd_) != 0)
    if (errno != EINTR) fail_input(path_.string(), ": cannot write: ", std::strerror(errno));
}

void save_safetensors(const fs::path& path, const NamedTensors& tensors,
                      const SafeTensorsMetadata& metadata) {
  std::vector<SafeTensorsWriter::Entry> entries;
  std::map<std::string, const Tensor*> by_name;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.dtype(), tensor.shape()});
    by_name.emplace(name, &tensor);
  }
  SafeTensorsWriter writer(path, std::move(entries), metadata);
  for (const auto& entry : writer.order()) writer.write(entry.name, *by_name.at(entry.name));
  writer.commit();
}

}  // namespace ringlet
