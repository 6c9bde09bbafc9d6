#include "interchange/huggingface/weights/weight_rows.h"

#include <algorithm>

namespace ridgepoint {

WeightRows::WeightRows(const TransformerConfig& config, const StoredWeight& weight, std::size_t part)
    : weight_(weight), part_(weight.parts[part]), head_size_(config.head_size()) {
  for (std::size_t i = 0; i < part; ++i) first_row_ += weight.parts[i].rows;
  rotated_ = part_.is_rotated
                 ? static_cast<std::int64_t>(static_cast<double>(head_size_) * config.architecture.rotary.share)
                 : 0;
}

template <typename Move>
void WeightRows::each(const Move& move) const {
  const Shape& shape = weight_.shape;
  const std::int64_t width = shape.rank() == 1 ? 1 : shape[weight_.is_transposed ? 0 : 1];
  const std::int64_t row_stride = weight_.is_transposed ? 1 : width;
  const std::int64_t column_stride = weight_.is_transposed ? shape[1] : 1;
  const std::int64_t begin = std::max<std::int64_t>(part_.expert, 0) * part_.rows * width;
  for (std::int64_t row = 0; row < part_.rows; ++row) {
    const std::int64_t stored_row = first_row_ + file_row(row, head_size_, rotated_);
    for (std::int64_t column = 0; column < width; ++column) {
      move(static_cast<std::size_t>(begin + row * width + column),
           static_cast<std::size_t>(stored_row * row_stride + column * column_stride));
    }
  }
}

void WeightRows::read(const HostTensor& stored, HostTensor& parameter) const {
  const std::span<const float> from = stored.as<float>();
  const std::span<float> to = parameter.as<float>();
  each([&](std::size_t ours, std::size_t file) { to[ours] = from[file]; });
}

void WeightRows::write(const HostTensor& parameter, HostTensor& stored) const {
  const std::span<const float> from = parameter.as<float>();
  const std::span<float> to = stored.as<float>();
  each([&](std::size_t ours, std::size_t file) { to[file] = from[ours]; });
}

}  // namespace ridgepoint
