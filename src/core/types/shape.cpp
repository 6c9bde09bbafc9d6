#include "ridgepoint/core/shape.h"

#include <algorithm>
#include <vector>

#include "ridgepoint/core/error.h"

namespace ridgepoint {

Shape::Shape(std::initializer_list<Dim> dims) : Shape(std::span<const Dim>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const Dim> dims) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;
  if (dims.size() > static_cast<std::size_t>(kMaxRank)) {
    throw Error("a shape of rank " + std::to_string(dims.size()) + " is too large; the largest rank is " +
                std::to_string(kMaxRank));
  }
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
  // Zero sizes are left out: before a 0, a partial product could overflow.
  std::int64_t product = 1;
  bool empty = false;
  for (const Dim& dim : dims) {
    if (dim.size < 0) throw Error("a dimension has size " + std::to_string(dim.size) + "; sizes must be 0 or more");
    if (dim.size == 0) {
      empty = true;
    } else if (product > kMaxElements / dim.size) {
      throw Error("shape " + to_string() + " has more than 2^62 elements", ErrorKind::usage);
    } else {
      product *= dim.size;
    }
  }
  elements_ = empty ? 0 : product;
}

bool operator==(const Shape& a, const Shape& b) {
  return a.rank_ == b.rank_ &&
         std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), [](Dim x, Dim y) { return x.size == y.size; });
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ',';
    if (dim(i).label != 0) text += dim(i).label;
    text += std::to_string(dim(i).size);
  }
  return text + "]";
}

Shape with_size(const Shape& shape, int axis, std::int64_t size) {
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  dims[static_cast<std::size_t>(axis)].size = size;
  return Shape(dims);
}

std::array<std::int64_t, kMaxRank> dense_strides(const Shape& shape) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<Dim, kMaxRank> dims;
  for (int i = 0; i < rank; ++i) {
    const Dim x = i < a.rank() ? a.dim(a.rank() - 1 - i) : Dim(1);
    const Dim y = i < b.rank() ? b.dim(b.rank() - 1 - i) : Dim(1);
    if (x.size != y.size && x.size != 1 && y.size != 1) {
      throw Error("shapes " + a.to_string() + " and " + b.to_string() + " do not broadcast: sizes " +
                  std::to_string(x.size) + " and " + std::to_string(y.size) + " differ and neither is 1");
    }
    const Dim wider = x.size == 1 ? y : x;
    const char label = wider.label != 0 || x.size != y.size ? wider.label : (x.label != 0 ? x.label : y.label);
    dims[static_cast<std::size_t>(rank - 1 - i)] = Dim(wider.size, label);
  }
  return Shape(std::span<const Dim>(dims.data(), static_cast<std::size_t>(rank)));
}

int normalise_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw Error("axis " + std::to_string(axis) + " is outside a rank-" + std::to_string(rank) + " tensor");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace ridgepoint
