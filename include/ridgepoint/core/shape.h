// Static tensor shapes. A dimension has a size (>= 0) and may carry a one-letter label:
// B batch, S sequence, T tokens (B*S), D model or head width, H heads, V vocabulary, F feed-forward width.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace ridgepoint {

inline constexpr int kMaxRank = 6;

struct Dim {
  std::int64_t size = 0;
  char label = 0;
  constexpr Dim() = default;
  constexpr Dim(std::int64_t dim_size, char dim_label = 0) : size(dim_size), label(dim_label) {}  // NOLINT: 4 is a Dim
};

class Shape {
 public:
  Shape() = default;  // rank 0: one element
  // Throw Error for a negative size, a rank over kMaxRank, or an element count past 2^62.
  Shape(std::initializer_list<Dim> dims);
  explicit Shape(std::span<const Dim> dims);

  int rank() const { return rank_; }
  // `axis` may count from the end (-1 is the last dimension).
  std::int64_t operator[](int axis) const {
    return dims_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)].size;
  }
  Dim dim(int axis) const { return dims_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)]; }
  std::span<const Dim> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  std::int64_t elements() const { return elements_; }

  // Compares sizes only; labels are documentation.
  friend bool operator==(const Shape& a, const Shape& b);

  // `[B4,S256]`, as the graph text writes it.
  std::string to_string() const;

 private:
  std::array<Dim, kMaxRank> dims_{};
  int rank_ = 0;
  std::int64_t elements_ = 1;
};

// The shape with another size of one axis, which keeps its label.
Shape with_size(const Shape& shape, int axis, std::int64_t size);

// Element strides of a dense row-major tensor.
std::array<std::int64_t, kMaxRank> dense_strides(const Shape& shape);

// The shape that both broadcast to, by numpy's rules; labels come from the operand that has one.
// Throws Error when a pair of sizes differs and neither is 1.
Shape broadcast_shapes(const Shape& a, const Shape& b);

// The axis counted from the front; `axis` may be negative. Throws Error outside [-rank, rank).
int normalise_axis(std::int64_t axis, int rank);

}  // namespace ridgepoint
