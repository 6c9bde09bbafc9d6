#include "lowering/row_space.h"

#include <algorithm>
#include <limits>
#include <span>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kNoEnd = std::numeric_limits<std::size_t>::max();

// Where the dimensions of `shape` in `dims` from `first` on end that have `product` elements; kNoEnd where none do.
std::size_t factors_end(std::span<const int> dims, const Shape& shape, std::size_t first, std::int64_t product) {
  std::int64_t found = 1;
  while (found != 0 && found < product && first < dims.size()) found *= shape[dims[first++]];
  return found == product ? first : kNoEnd;
}

std::vector<int> dims_with_axes(const Shape& shape) {
  std::vector<int> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1) dims.push_back(i);
  }
  return dims;
}

// Union-find over the dimensions of all values, followed by a numbering of the classes. A class that a reshape splits
// has parts, which are classes too: they are smaller, so that following parts ends.
class AxisFinder {
 public:
  explicit AxisFinder(const Graph& body) : body_(body), of_(body.value_count()) {}

  std::optional<BodyAxes> run() {
    for (const NodeId id : body_.order()) {
      if (!visit(body_.node(id))) return std::nullopt;
    }
    return number();
  }

 private:
  bool visit(const Node& node) {
    switch (op_class(node.op)) {
      case OpClass::state: return make_fresh(node.outputs[0]), true;
      case OpClass::elementwise: return visit_elementwise(node);
      case OpClass::reduction: return visit_reduction(node), true;
      case OpClass::view: return visit_view(node);
      default: return false;
    }
  }

  bool visit_view(const Node& node) {
    if (node.op == Op::transpose) return visit_transpose(node), true;
    if (node.op == Op::broadcast) return visit_elementwise(node);
    return node.op == Op::reshape && visit_reshape(node);
  }

  int fresh(std::int64_t size) {
    if (size == 1) return kNoAxis;
    sizes_.push_back(size);
    parts_.emplace_back();
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }

  int root(int axis) const {
    while (parent_[static_cast<std::size_t>(axis)] != axis) axis = parent_[static_cast<std::size_t>(axis)];
    return axis;
  }

  std::vector<int>& parts(int axis) { return parts_[static_cast<std::size_t>(root(axis))]; }

  // Makes one class of two. False where they are split differently.
  bool unite(int a, int b) {
    if (root(a) == root(b)) return true;
    if (sizes_[static_cast<std::size_t>(a)] != sizes_[static_cast<std::size_t>(b)]) return false;
    const std::vector<int> split_of_a = parts(a);
    parent_[static_cast<std::size_t>(root(a))] = root(b);
    return split_of_a.empty() || split(b, split_of_a);
  }

  bool split(int axis, const std::vector<int>& into) {
    const std::vector<int> known = parts(axis);
    if (known.empty()) return parts(axis) = into, true;
    if (known.size() != into.size()) return false;
    for (std::size_t i = 0; i < into.size(); ++i) {
      if (!unite(known[i], into[i])) return false;
    }
    return true;
  }

  void make_fresh(Value value) {
    for (const Dim& dim : body_.type(value).shape.dims()) of_[value.id].push_back(fresh(dim.size));
  }

  bool visit_elementwise(const Node& node) {
    const Value result = node.outputs[0];
    make_fresh(result);
    const std::vector<int>& dims = of_[result.id];
    for (const Value operand : node.inputs) {
      const std::vector<int>& from = of_[operand.id];
      const std::size_t lead = dims.size() - from.size();
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (from[i] != kNoAxis && !unite(from[i], dims[lead + i])) return false;
      }
    }
    return true;
  }

  void visit_reduction(const Node& node) {
    const std::vector<int>& from = of_[node.inputs[0].id];
    const std::vector<int> reduced = reduced_axes(node.attributes, static_cast<int>(from.size()));
    const bool keep = node.attributes.get<bool>("keep_dims");
    for (std::size_t i = 0; i < from.size(); ++i) {
      const bool gone = std::binary_search(reduced.begin(), reduced.end(), static_cast<int>(i));
      if (!gone || keep) of_[node.outputs[0].id].push_back(gone ? kNoAxis : from[i]);
    }
  }

  void visit_transpose(const Node& node) {
    for (const std::int64_t axis : node.attributes.get<std::vector<std::int64_t>>("permutation"))
      of_[node.outputs[0].id].push_back(of_[node.inputs[0].id][static_cast<std::size_t>(axis)]);
  }

  // Walks over both shapes. A dimension stays, is split into some of the result's, or is merged with others into one of
  // the result's. What regroups several dimensions into several, such as [6,4] into [8,3], is not supported.
  bool visit_reshape(const Node& node) {
    const Shape& from = body_.type(node.inputs[0]).shape;
    const Shape& to = body_.type(node.outputs[0]).shape;
    const std::vector<int> before = dims_with_axes(from);
    const std::vector<int> after = dims_with_axes(to);
    std::vector<int> axes;
    for (const int dim : before) axes.push_back(of_[node.inputs[0].id][static_cast<std::size_t>(dim)]);
    std::vector<int>& made = of_[node.outputs[0].id];
    made.assign(static_cast<std::size_t>(to.rank()), kNoAxis);
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < before.size() && j < after.size()) {
      const std::int64_t size = from[before[i]];
      const std::int64_t wanted = to[after[j]];
      const std::size_t end_before = size < wanted ? factors_end(before, from, i, wanted) : i + 1;
      const std::size_t end_after = wanted < size ? factors_end(after, to, j, size) : j + 1;
      if (end_before == kNoEnd || end_after == kNoEnd) return false;
      const std::span group = std::span(axes).subspan(i, end_before - i);
      if (size == wanted) {
        made[static_cast<std::size_t>(after[j])] = axes[i];
      } else if (size < wanted) {
        made[static_cast<std::size_t>(after[j])] = merged(group, wanted);
      } else {
        std::vector<int> into;
        for (; j < end_after; ++j) into.push_back(made[static_cast<std::size_t>(after[j])] = fresh(to[after[j]]));
        if (!split(axes[i], into)) return false;
      }
      i = end_before;
      j = end_after;
    }
    return i == before.size() && j == after.size();
  }

  int merged(std::span<const int> axes, std::int64_t size) {
    const int axis = fresh(size);
    parts(axis).assign(axes.begin(), axes.end());
    return axis;
  }

  // The numbers of the axes that a dimension consists of, which get the next numbers where they have none.
  void append_numbers(int axis, std::vector<int>& index, BodyAxes& axes, std::vector<int>& numbers) {
    if (axis == kNoAxis) return;
    for (const int part : parts(axis)) append_numbers(part, index, axes, numbers);
    if (!parts(axis).empty()) return;
    int& number = index[static_cast<std::size_t>(root(axis))];
    if (number == kNoAxis) {
      number = static_cast<int>(axes.sizes.size());
      axes.sizes.push_back(sizes_[static_cast<std::size_t>(axis)]);
    }
    numbers.push_back(number);
  }

  // Two dimensions of a value with the same axis would be a diagonal, which is not supported.
  std::optional<BodyAxes> number() {
    BodyAxes axes;
    std::vector<int> index(parent_.size(), kNoAxis);
    for (const std::vector<int>& dims : of_) {
      AxisSet seen;
      std::vector<std::vector<int>>& of = axes.of.emplace_back();
      for (const int dim : dims) {
        append_numbers(dim, index, axes, of.emplace_back());
        if (axes.sizes.size() > kMaxBodyAxes) return std::nullopt;
        for (const int axis : of.back()) {
          if (seen[static_cast<std::size_t>(axis)]) return std::nullopt;
          seen.set(static_cast<std::size_t>(axis));
        }
      }
    }
    return axes;
  }

  const Graph& body_;
  std::vector<std::vector<int>> of_;     // by value id: the class of each dimension, kNoAxis where its size is 1
  std::vector<std::int64_t> sizes_;      // of each class
  std::vector<std::vector<int>> parts_;  // of the root of each class, the outermost first; none where it is not split
  std::vector<int> parent_;
};

}  // namespace

AxisSet BodyAxes::set_of(Value value) const {
  AxisSet set;
  for (const std::vector<int>& dim : of[value.id]) {
    for (const int axis : dim) set.set(static_cast<std::size_t>(axis));
  }
  return set;
}

std::optional<BodyAxes> find_axes(const Graph& body) { return AxisFinder(body).run(); }

}  // namespace ridgepoint
