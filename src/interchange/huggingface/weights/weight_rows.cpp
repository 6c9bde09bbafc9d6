#include "interchange/huggingface/weights/weight_rows.h"

#include <algorithm>

namespace ridgepoint {
namespace {

std::int64_t stored_row(const WeightPart& part, std::int64_t row) {
  row = part.order().file_row(row);
  const RowPlaces& places = part.places;
  return places.first + row / places.together * places.stride + row % places.together;
}

std::int64_t stored_column(const WeightPart& part, std::int64_t column) {
  return part.column_heads > 0 ? RowOrder{part.column_heads, part.rotated_columns}.file_row(column) : column;
}

}  // namespace

template <typename Move>
void WeightRows::each(const Move& move) const {
  const Shape shape = weight_.own_shape();
  const bool is_matrix = shape.rank() >= 2;
  const std::int64_t width = is_matrix ? shape[weight_.is_transposed ? -2 : -1] : 1;
  const std::int64_t row_stride = weight_.is_transposed ? 1 : width;
  const std::int64_t column_stride = weight_.is_transposed ? shape[-1] : 1;
  const std::int64_t experts = std::max<std::int64_t>(weight_.experts(), 1);
  const std::int64_t own = part_.rows * width;
  const std::int64_t stored = shape.elements();
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const std::int64_t begin = (expert + std::max<std::int64_t>(part_.expert, 0)) * own + part_.first * width;
    for (std::int64_t row = 0; row < part_.rows; ++row) {
      const std::int64_t place = stored_row(part_, row);
      if (!weight_.is_transposed && part_.column_heads == 0) {
        move(static_cast<std::size_t>(begin + row * width), static_cast<std::size_t>(expert * stored + place * width),
             width);
        continue;
      }
      for (std::int64_t column = 0; column < width; ++column) {
        move(static_cast<std::size_t>(begin + row * width + column),
             static_cast<std::size_t>(expert * stored + place * row_stride +
                                      stored_column(part_, column) * column_stride),
             1);
      }
    }
  }
}

void WeightRows::read(const HostTensor& stored, HostTensor& parameter) const {
  const std::span<const float> from = stored.as<float>();
  const std::span<float> to = parameter.as<float>();
  each([&](std::size_t ours, std::size_t file, std::int64_t count) {
    std::copy_n(from.subspan(file).begin(), count, to.subspan(ours).begin());
  });
}

void WeightRows::write(const HostTensor& parameter, HostTensor& stored) const {
  const std::span<const float> from = parameter.as<float>();
  const std::span<float> to = stored.as<float>();
  each([&](std::size_t ours, std::size_t file, std::int64_t count) {
    std::copy_n(from.subspan(ours).begin(), count, to.subspan(file).begin());
  });
}

}  // namespace ridgepoint
