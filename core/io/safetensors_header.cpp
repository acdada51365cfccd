#include "ringlet/core/io/safetensors_header.h"
#include "ringlet/core/io/json.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <optional>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"

namespace ringlet::safetensors {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

std::optional<DType> dtype_named(const std::string& text) {
  if (text == "BOOL") return DType::u8;
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8})
    if (format_name(dtype) == text) return dtype;
  return std::nullopt;
}

/// One entry {"dtype": …, "shape": […], "data_offsets": [begin, end]} of a header.
class EntryReader {
 public:
  EntryReader(const fs::path& path, const std::string& name, const Json& value)
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
    const std::optional<DType> known = dtype_named(text);
    if (!known) {
      entry.refusal = str("dtype ", shown(text), " is not supported");
      return;
    }
    entry.dtype = *known;
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
    // A size of 0 makes the product 0, but no partial product before it may overflow.
    for (std::uint64_t size : sizes)
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
          __builtin_mul_overflow(nbytes, size, &nbytes))
        refuse("shape is too large");
    if (nbytes != entry.end - entry.begin)
      refuse("its shape needs ", nbytes, " bytes, data_offsets give ", entry.end - entry.begin);
  }

  std::string dtype() const {
    const Json* found = value_.find("dtype");
    if (found == nullptr || !found->is_string()) refuse("expected a dtype");
    return found->text();
  }

  std::vector<std::uint64_t> integers(const char* key) const {
    const Json* found = value_.find(key);
    if (found == nullptr || !found->is_array()) refuse("expected a list ", quote(key));
    std::vector<std::uint64_t> out;
    for (const Json& item : *found) {
      if (!item.is_number_unsigned()) refuse(quote(key), " must hold non-negative integers");
      out.push_back(item.unsigned_integer());
    }
    return out;
  }

  template <class... Args>
  [[noreturn]] void refuse(const Args&... args) const {
    fail_input(path_.string(), ": tensor ", quote(name_), ": ", args...);
  }

  const fs::path& path_;
  const std::string& name_;
  const Json& value_;
};

}  // namespace

std::string format_name(DType dtype) {
  std::string text(name(dtype));
  for (char& letter : text) letter = static_cast<char>(std::toupper(letter));
  return text;
}

Json parse_object(const fs::path& path, std::string_view text) {
  Json value = Json::parse(text, path.string(), Json::Repeated::refused);
  if (!value.is_object()) fail_input(path.string(), ": expected a JSON object");
  return value;
}

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

void read_metadata(const fs::path& path, const Json& value,
                   std::map<std::string, std::string>& metadata) {
  if (value.is_null()) return;
  if (!value.is_object()) fail_input(path.string(), ": ", kMetadata, " must be an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail_input(path.string(), ": ", kMetadata, ' ', quote(key), " must be a string");
    metadata.insert_or_assign(key, text.text());
  }
}

std::vector<HeaderEntry> read_entries(const fs::path& path, const Json& header,
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

}  // namespace ringlet::safetensors
