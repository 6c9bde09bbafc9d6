#include "lowering/row_axes.h"

#include <algorithm>
#include <numeric>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

// Union-find over the dimensions of all values, followed by a numbering of the classes.
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
      case OpClass::state:
        return make_fresh(node.outputs[0]), true;
      case OpClass::elementwise:
        return visit_elementwise(node), true;
      case OpClass::reduction:
        return visit_reduction(node), true;
      case OpClass::view:
        return visit_view(node);
      default:
        return false;
    }
  }

  bool visit_view(const Node& node) {
    if (node.op == Op::transpose) return visit_transpose(node), true;
    if (node.op == Op::broadcast) return visit_elementwise(node), true;
    return node.op == Op::reshape && visit_reshape(node);
  }

  int fresh(std::int64_t size) {
    if (size == 1) return kNoAxis;
    sizes_.push_back(size);
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }

  int root(int axis) {
    while (parent_[static_cast<std::size_t>(axis)] != axis) axis = parent_[static_cast<std::size_t>(axis)];
    return axis;
  }

  void make_fresh(Value value) {
    for (const Dim& dim : body_.type(value).shape.dims()) of_[value.id].push_back(fresh(dim.size));
  }

  void visit_elementwise(const Node& node) {
    const Value result = node.outputs[0];
    make_fresh(result);
    std::vector<int>& dims = of_[result.id];
    for (const Value operand : node.inputs) {
      const std::vector<int>& from = of_[operand.id];
      const std::size_t lead = dims.size() - from.size();
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (from[i] != kNoAxis) parent_[static_cast<std::size_t>(root(from[i]))] = root(dims[lead + i]);
      }
    }
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
    for (const std::int64_t axis : node.attributes.get<std::vector<std::int64_t>>("permutation")) {
      of_[node.outputs[0].id].push_back(of_[node.inputs[0].id][static_cast<std::size_t>(axis)]);
    }
  }

  // Only a reshape that adds or removes size-1 dimensions is supported.
  bool visit_reshape(const Node& node) {
    const Shape& from = body_.type(node.inputs[0]).shape;
    const Shape& to = body_.type(node.outputs[0]).shape;
    int next = 0;
    for (int i = 0; i < to.rank(); ++i) {
      if (to[i] == 1) {
        of_[node.outputs[0].id].push_back(kNoAxis);
        continue;
      }
      while (next < from.rank() && from[next] == 1) ++next;
      if (next == from.rank() || from[next] != to[i]) return false;
      of_[node.outputs[0].id].push_back(of_[node.inputs[0].id][static_cast<std::size_t>(next++)]);
    }
    return std::all_of(from.dims().begin() + next, from.dims().end(), [](Dim dim) { return dim.size == 1; });
  }

  // Two dimensions of a value with the same axis would be a diagonal, which is not supported.
  std::optional<BodyAxes> number() {
    BodyAxes axes;
    std::vector<int> index(parent_.size(), kNoAxis);
    for (std::vector<int>& dims : of_) {
      AxisSet seen;
      for (int& axis : dims) {
        if (axis == kNoAxis) continue;
        int& number = index[static_cast<std::size_t>(root(axis))];
        if (number == kNoAxis) {
          number = static_cast<int>(axes.sizes.size());
          axes.sizes.push_back(sizes_[static_cast<std::size_t>(axis)]);
        }
        axis = number;
        if (axes.sizes.size() > kMaxBodyAxes || seen[static_cast<std::size_t>(axis)]) return std::nullopt;
        seen.set(static_cast<std::size_t>(axis));
      }
    }
    axes.of = std::move(of_);
    return axes;
  }

  const Graph& body_;
  std::vector<std::vector<int>> of_;
  std::vector<std::int64_t> sizes_;
  std::vector<int> parent_;
};

}  // namespace

AxisSet BodyAxes::set_of(Value value) const {
  AxisSet set;
  for (const int axis : of[value.id]) {
    if (axis != kNoAxis) set.set(static_cast<std::size_t>(axis));
  }
  return set;
}

std::optional<BodyAxes> find_axes(const Graph& body) { return AxisFinder(body).run(); }

}  // namespace ridgepoint
