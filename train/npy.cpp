#include "ringlet/train/npy.h"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::train {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY\x01\x00"sv;
constexpr std::size_t kPreamble = kMagic.size() + 2;  // and the header's length, 16 bits
constexpr std::size_t kAlignment = 64;

struct Descr {
  DType dtype;
  std::string_view text;
};
constexpr std::array<Descr, 6> kDescrs{{{DType::f32, "<f4"},
                                        {DType::f64, "<f8"},
                                        {DType::f16, "<f2"},
                                        {DType::i32, "<i4"},
                                        {DType::i64, "<i8"},
                                        {DType::u8, "|u1"}}};

std::string_view descr(DType dtype) {
  for (const Descr& known : kDescrs)
    if (known.dtype == dtype) return known.text;
  unsupported_dtype("npy", dtype);
}

std::string header(const Shape& shape, DType dtype) {
  std::string sizes;
  for (const std::int64_t size : shape) sizes += str(size, ", ");
  if (shape.dim() > 1) sizes.resize(sizes.size() - 2);
  if (shape.dim() == 1) sizes.pop_back();  // "(3,)"
  std::string text =
      str("{'descr': '", descr(dtype), "', 'fortran_order': False, 'shape': (", sizes, "), }");
  text.append((kAlignment - (kPreamble + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<unsigned>(text.size());
  return str(kMagic, static_cast<char>(length & 0xff), static_cast<char>(length >> 8), text);
}

/// The text between the first `open` after `key` and the next `close`.
std::string_view value_of(std::string_view header, std::string_view key, char open, char close,
                          const std::string& file) {
  const std::size_t at = header.find(key);
  const std::size_t begin = at == header.npos ? at : header.find(open, at + key.size());
  const std::size_t end = begin == header.npos ? begin : header.find(close, begin + 1);
  if (end == header.npos) fail_input(file, ": expected ", key, " in the npy header");
  return header.substr(begin + 1, end - begin - 1);
}

Shape parse_shape(std::string_view text, const std::string& file) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == ',') {
      ++i;
      continue;
    }
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), size);
    if (error != std::errc() || size < 0 || sizes.size() == Shape::kMaxDim)
      fail_input(file, ": expected a shape in the npy header, found (", text, ")");
    sizes.push_back(size);
    i = static_cast<std::size_t>(end - text.data());
  }
  return Shape(sizes);
}

/// The elements' bytes; nothing if their number does not fit into 63 bits.
std::optional<std::uint64_t> data_bytes(const Shape& shape, DType dtype) {
  std::int64_t nbytes = static_cast<std::int64_t>(itemsize(dtype));
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(nbytes, size, &nbytes)) return std::nullopt;
  return static_cast<std::uint64_t>(nbytes);
}

}  // namespace

NpyWriter::NpyWriter(const std::filesystem::path& path, const Shape& shape, DType dtype)
    : file_(path), dtype_(dtype == DType::bf16 ? DType::f32 : dtype), missing_(shape.numel()) {
  file_.write(header(shape, dtype_));
}

void NpyWriter::write(const Tensor& elements) {
  const Tensor here = elements.to(Device{}).to(dtype_);
  RINGLET_CHECK(here.numel() <= missing_, "[npy] ", here.numel(), " elements for ", missing_,
                " places");
  missing_ -= here.numel();
  file_.write(std::span(here.bytes(), here.nbytes()));
}

void NpyWriter::commit() {
  RINGLET_CHECK_EQ(missing_, 0, "[npy] elements missing at the end");
  file_.commit();
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  NpyWriter writer(path, tensor.shape(), tensor.dtype());
  writer.write(tensor);
  writer.commit();
}

Tensor read_npy(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string name = path.string();
  const std::string_view text = file.text();
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < kPreamble)
    fail_input(name, ": expected an npy file of version 1.0");
  const std::size_t length = static_cast<unsigned char>(text[kMagic.size()]) |
                             std::size_t{static_cast<unsigned char>(text[kMagic.size() + 1])} << 8;
  if (text.size() - kPreamble < length) fail_input(name, ": the npy header is cut");
  const std::string_view head = text.substr(kPreamble, length);
  const std::string_view type = value_of(head, "'descr':", '\'', '\'', name);
  const Descr* known = nullptr;
  for (const Descr& candidate : kDescrs)
    if (candidate.text == type) known = &candidate;
  if (known == nullptr) fail_input(name, ": npy type ", quote(type), " is not supported");
  if (value_of(head, "'fortran_order':", ' ', ',', name) != "False")
    fail_input(name, ": expected an npy array in C order");
  const Shape shape = parse_shape(value_of(head, "'shape':", '(', ')', name), name);
  const std::size_t found = text.size() - kPreamble - length;
  if (data_bytes(shape, known->dtype) != found)
    fail_input(name, ": ", found, " bytes of data do not fill shape ", shape, " of ", known->dtype);
  Tensor tensor = empty(shape, known->dtype, Device{});
  if (found > 0) std::memcpy(tensor.mutable_bytes(), text.data() + kPreamble + length, found);
  return tensor;
}

}  // namespace ringlet::train
