#include "ringlet/train/evaluators/npy.h"

#include <string>
#include <string_view>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY\x01\x00"sv;
constexpr std::size_t kPreamble = kMagic.size() + 2;  // and the header's length, 16 bits
constexpr std::size_t kAlignment = 64;

std::string header(std::int64_t rows, std::int64_t columns) {
  std::string text =
      str("{'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", columns, "), }");
  text.append((kAlignment - (kPreamble + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<unsigned>(text.size());
  return str(kMagic, static_cast<char>(length & 0xff), static_cast<char>(length >> 8), text);
}

}  // namespace

NpyWriter::NpyWriter(const std::filesystem::path& path, std::int64_t rows, std::int64_t columns)
    : file_(path), missing_(rows * columns) {
  file_.write(header(rows, columns));
}

void NpyWriter::write(const Tensor& rows) {
  const Tensor here = rows.to(Device{}).to(DType::f32);
  RINGLET_CHECK(here.numel() <= missing_, "[npy] ", here.numel(), " elements for ", missing_,
                " places");
  missing_ -= here.numel();
  file_.write(std::span(here.bytes(), here.nbytes()));
}

void NpyWriter::commit() {
  RINGLET_CHECK_EQ(missing_, 0, "[npy] elements missing at the end");
  file_.commit();
}

}  // namespace ringlet::train
