// Loops over the elements of several operands, and loads and stores of the runs in which they go.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ridgepoint/core/shape.h"
#include "runtime/device/device.h"

namespace ridgepoint::reference {

inline constexpr std::size_t kMaxOperands = 4;
inline constexpr std::int64_t kRunElements = 512;  // the longest run: one operand's run of doubles is 4 KiB

using Strides = std::array<std::int64_t, kMaxRank>;
using Offsets = std::array<std::int64_t, kMaxOperands>;

// The operand's element strides over `shape`, to which it is broadcast as in NumPy: 0 along broadcast dimensions.
Strides broadcast_strides(const TensorLayout& operand, const Shape& shape);
// The element stride along `axis`, counted from the end if negative; 0 for an immediate.
inline std::int64_t stride_of(const TensorLayout& layout, int axis) {
  return layout.immediate ? 0 : layout.strides[static_cast<std::size_t>(axis < 0 ? axis + layout.shape.rank() : axis)];
}

// Iterates over several operands in one index space, in row-major order and in runs of elements, so that index
// arithmetic is done once a run. Dimensions of size 1 are dropped, and neighbouring dimensions that every operand steps
// through evenly are merged: dense operands become one long row.
class LoopNest {
 public:
  // strides[i] are the element strides of operand i over `shape`. At most kMaxOperands operands.
  LoopNest(const Shape& shape, std::span<const Strides> strides);

  // Distance in elements between neighbours of a run.
  std::int64_t run_stride(std::size_t operand) const { return strides_[operand][last()]; }

  // Calls body(offsets, count) for each run: the offset of each operand's first element, in elements, and the number of
  // elements, at most kRunElements. An empty space has no runs.
  template <typename Body>
  void for_each_run(Body&& body) const {
    if (empty_) return;
    std::array<std::int64_t, kMaxRank> index{};
    Offsets row{};
    while (true) {
      for (std::int64_t begin = 0; begin < sizes_[last()]; begin += kRunElements) {
        Offsets offsets = row;
        for (std::size_t i = 0; i < kMaxOperands; ++i) offsets[i] += begin * strides_[i][last()];
        body(offsets, std::min(kRunElements, sizes_[last()] - begin));
      }
      if (!next_row(index, row)) return;
    }
  }

 private:
  std::size_t last() const { return rank_ - 1; }

  // Advances to the next row; false after the last one.
  bool next_row(std::array<std::int64_t, kMaxRank>& index, Offsets& row) const {
    for (std::size_t axis = last(); axis-- > 0;) {
      const bool carry = ++index[axis] == sizes_[axis];
      const std::int64_t steps = carry ? 1 - sizes_[axis] : 1;
      for (std::size_t i = 0; i < kMaxOperands; ++i) row[i] += steps * strides_[i][axis];
      if (!carry) return true;
      index[axis] = 0;
    }
    return false;
  }

  bool mergeable(std::size_t outer, std::int64_t inner_size, std::span<const Strides> strides, std::size_t inner) const;

  std::size_t rank_ = 0;  // at least 1 once constructed
  bool empty_ = false;
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::array<Strides, kMaxOperands> strides_{};
};

// values[i] = element `offset + i * stride` of the operand at `base`, or the operand's immediate. Value is double or,
// for an integer or boolean operand, std::int64_t, which is exact.
template <typename Value>
void load_run(const TensorLayout& operand, const void* base, std::int64_t offset, std::int64_t stride,
              std::int64_t count, Value* values);

// Stores a run: rounded to nearest even for floating dtypes and towards zero for integers; a boolean is value != 0.
void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const double* values);
// The same from integers: modulo 2^bits for integer dtypes, rounded once for floating ones.
void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const std::int64_t* values);

// All elements of a dense operand, and the inverse.
std::vector<double> load_all(const TensorLayout& layout, const void* base);
template <typename Value>
void store_all(const TensorLayout& layout, void* base, const std::vector<Value>& values) {
  store_run(layout.dtype, base, 0, 1, layout.shape.elements(), values.data());
}

}  // namespace ridgepoint::reference
