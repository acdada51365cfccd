#include "ringlet/train/data/digits.h"

namespace ringlet::train {

DigitBatch collate_digits(const Digits& digits, const Rows& rows) {
  const std::size_t pixels = digits.height * digits.width;
  std::vector<float> images;
  std::vector<std::int64_t> labels;
  std::vector<std::int32_t> positions;
  images.reserve(rows.size() * pixels);
  for (const std::size_t row : rows) {
    RINGLET_CHECK(row < digits.count, "[collate_digits] row ", row, " of ", digits.count);
    for (std::size_t i = row * pixels; i < (row + 1) * pixels; ++i)
      images.push_back(static_cast<float>((digits.pixels[i] / 255.0 - kDigitMean) / kDigitStd));
    positions.insert(positions.end(), {static_cast<std::int32_t>(rows.first + labels.size()), 0});
    labels.push_back(digits.labels[row]);
  }
  const auto n = static_cast<std::int64_t>(rows.size());
  return {tensor(images,
                 {n, 1, static_cast<std::int64_t>(digits.height),
                  static_cast<std::int64_t>(digits.width)},
                 Device{}),
          tensor(labels, {n}, Device{}), tensor(positions, {n, 2}, Device{})};
}

}  // namespace ringlet::train
