#include "lowering/row_space.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace ridgepoint {
namespace {

// Shorter rows cost more in overhead than contiguous access saves; a longer axis with a larger stride is then the
// better column axis.
constexpr std::int64_t kShortestColumns = 16;

std::int64_t at(const AxisStrides& strides, int axis) { return strides[static_cast<std::size_t>(axis)]; }
bool has(const AxisSet& set, int axis) { return set[static_cast<std::size_t>(axis)]; }

// The reductions of a subgraph over at least one axis.
struct Reductions {
  std::vector<AxisSet> inner;     // read by other nodes: each must reduce over the columns
  std::vector<AxisSet> terminal;  // outputs only
};

Reductions find_reductions(const Subgraph& subgraph) {
  const BodyAxes& axes = subgraph.axes;
  std::vector<int> carried(subgraph.body.value_count(), -1);  // the reduction that a value is a view of
  std::vector<AxisSet> reduced;
  std::vector<bool> inner;
  const auto use = [&](Value value) {
    if (carried[value.id] >= 0) inner[static_cast<std::size_t>(carried[value.id])] = true;
  };
  for (const NodeId id : subgraph.nodes) {
    const Node& node = subgraph.body.node(id);
    if (node.outputs.empty() || node.inputs.empty()) continue;
    const bool same_axes = axes.set_of(node.outputs[0]) == axes.set_of(node.inputs[0]);
    const bool passes = op_class(node.op) == OpClass::view || op_class(node.op) == OpClass::reduction;
    if (same_axes && passes) {
      carried[node.outputs[0].id] = carried[node.inputs[0].id];
      continue;
    }
    for (const Value operand : node.inputs) use(operand);
    if (op_class(node.op) != OpClass::reduction) continue;
    carried[node.outputs[0].id] = static_cast<int>(reduced.size());
    reduced.push_back(subgraph.reduced_by(node));
    inner.push_back(false);
  }
  Reductions found;
  for (std::size_t i = 0; i < reduced.size(); ++i) (inner[i] ? found.inner : found.terminal).push_back(reduced[i]);
  return found;
}

// Builds the space: merges axes that are contiguous in every access, chooses the columns and orders the rows.
class SpaceBuilder {
 public:
  SpaceBuilder(const Subgraph& subgraph, AxisSet first, AxisSet second)
      : subgraph_(subgraph), sizes_(subgraph.axes.sizes), members_(sizes_.size()), roles_{first, second} {
    collect_accesses();
    const AxisSet all = subgraph.all_axes();
    for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis) {
      members_[static_cast<std::size_t>(axis)].set(static_cast<std::size_t>(axis));
      if (has(all, axis)) live_.push_back(axis);
    }
    merge();
  }

  // The body axes that were merged into `axis`.
  AxisSet members(int axis) const { return axis == kNoAxis ? AxisSet() : members_[static_cast<std::size_t>(axis)]; }

  // The only merged axis of `set`; nullopt if there are several.
  std::optional<int> only_axis(const AxisSet& set) const {
    int found = kNoAxis;
    for (const int axis : live_) {
      if (!has(set, axis)) continue;
      if (found != kNoAxis) return std::nullopt;
      found = axis;
    }
    return found;
  }

  const std::vector<int>& axes() const { return live_; }

  // The axis with the smallest stride in the leading access, or the longest axis where that one is too short.
  int densest_axis() const {
    int best = kNoAxis;
    int longest = kNoAxis;
    for (const int axis : live_) {
      const std::int64_t stride = std::abs(at(lead_, axis));
      if (longest == kNoAxis || size(axis) >= size(longest)) longest = axis;
      if (stride != 0 && (best == kNoAxis || stride < std::abs(at(lead_, best)))) best = axis;
    }
    return best == kNoAxis || size(best) < kShortestColumns ? longest : best;
  }

  ChosenSpace build(int column_axis, AxisSet columns, AxisSet summed) const {
    ChosenSpace chosen;
    chosen.columns = columns;
    chosen.summed = summed;
    chosen.column_axis = column_axis;
    for (const int axis : live_) {
      if (axis != column_axis) chosen.row_axes.push_back(axis);
    }
    std::stable_sort(chosen.row_axes.begin(), chosen.row_axes.end(), [&](int a, int b) {
      if (has(summed, a) != has(summed, b)) return has(summed, b);
      return std::abs(at(lead_, a)) > std::abs(at(lead_, b));
    });
    for (const int axis : chosen.row_axes) {
      chosen.space.rows.push_back(size(axis));
      if (!has(summed, axis)) ++chosen.space.kept;
    }
    chosen.space.columns = column_axis == kNoAxis ? 1 : size(column_axis);
    return chosen;
  }

 private:
  std::int64_t size(int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }

  // The leading access is the first with the most axes: outputs come first, then operands.
  void collect_accesses() {
    std::size_t widest = 0;
    const auto add = [&](AxisStrides strides, Value value) {
      const std::size_t width = subgraph_.axes.set_of(value).count();
      if (accesses_.empty() || width > widest) {
        lead_ = strides;
        widest = width;
      }
      accesses_.push_back(std::move(strides));
    };
    for (const int i : subgraph_.outputs) {
      add(axis_strides(subgraph_.axes, subgraph_.output(i), subgraph_.output_layouts[static_cast<std::size_t>(i)]),
          subgraph_.output(i));
    }
    for (const NodeId id : subgraph_.nodes) {
      const Node& node = subgraph_.body.node(id);
      if (node.op == Op::input || node.op == Op::iota) add(subgraph_.strides_of(node), node.outputs[0]);
    }
  }

  bool same_role(int a, int b) const {
    return std::all_of(roles_.begin(), roles_.end(), [&](const AxisSet& role) { return has(role, a) == has(role, b); });
  }

  // Whether the stride of `outer` is stride * size of `inner` in every access.
  bool continues(int outer, int inner) const {
    return std::all_of(accesses_.begin(), accesses_.end(), [&](const AxisStrides& strides) {
      return at(strides, outer) == at(strides, inner) * size(inner);
    });
  }

  bool merge_one() {
    for (const int outer : live_) {
      for (const int inner : live_) {
        if (outer == inner || !same_role(outer, inner) || !continues(outer, inner)) continue;
        sizes_[static_cast<std::size_t>(inner)] *= size(outer);
        members_[static_cast<std::size_t>(inner)] |= members(outer);
        std::erase(live_, outer);
        return true;
      }
    }
    return false;
  }

  void merge() {
    while (merge_one()) {
    }
  }

  const Subgraph& subgraph_;
  std::vector<std::int64_t> sizes_;
  std::vector<AxisSet> members_;
  std::array<AxisSet, 2> roles_;
  std::vector<int> live_;
  std::vector<AxisStrides> accesses_;
  AxisStrides lead_;
};

// The row axes that the terminal reductions sum, for these columns. Nullopt where no space supports all reductions.
std::optional<AxisSet> summed_axes(const Reductions& reductions, const AxisSet& columns) {
  AxisSet summed;
  for (const AxisSet& inner : reductions.inner) {
    if (inner != columns) return std::nullopt;
  }
  for (const AxisSet& reduced : reductions.terminal) {
    const AxisSet rows = reduced & ~columns;
    if ((reduced & columns).any() && (reduced & columns) != columns) return std::nullopt;
    if (rows.none()) continue;
    if (summed.any() && summed != rows) return std::nullopt;
    summed = rows;
  }
  return summed;
}

std::optional<ChosenSpace> space_with_columns(const Subgraph& subgraph, const AxisSet& columns, const AxisSet& summed) {
  const SpaceBuilder builder(subgraph, columns, summed);
  const std::optional<int> axis = builder.only_axis(columns);
  if (!axis) return std::nullopt;
  return builder.build(*axis, columns, summed);
}

// For a subgraph without inner reductions, whose terminal reductions all have the axes `reduced` (perhaps none): any
// axis can be the columns.
std::vector<ChosenSpace> free_spaces(const Subgraph& subgraph, const AxisSet& reduced) {
  const SpaceBuilder builder(subgraph, reduced, reduced);
  std::vector<int> columns = {builder.densest_axis()};
  std::ranges::copy_if(builder.axes(), std::back_inserter(columns), [&](int axis) { return axis != columns.front(); });
  std::vector<ChosenSpace> spaces;
  for (const int axis : columns) {
    const AxisSet members = builder.members(axis);
    spaces.push_back(builder.build(axis, members, reduced & ~members));
  }
  return spaces;
}

std::vector<ChosenSpace> spaces_of(const Subgraph& subgraph) {
  const Reductions reductions = find_reductions(subgraph);
  if (reductions.inner.empty()) {
    const AxisSet reduced = reductions.terminal.empty() ? AxisSet() : reductions.terminal[0];
    const bool shared = std::all_of(reductions.terminal.begin(), reductions.terminal.end(),
                                    [&](const AxisSet& set) { return set == reduced; });
    if (shared) return free_spaces(subgraph, reduced);
  }
  std::vector<AxisSet> candidates = reductions.inner;
  candidates.insert(candidates.end(), reductions.terminal.begin(), reductions.terminal.end());
  std::vector<ChosenSpace> spaces;
  for (const AxisSet& columns : candidates) {
    const std::optional<AxisSet> summed = summed_axes(reductions, columns);
    if (!summed) continue;
    if (std::optional<ChosenSpace> space = space_with_columns(subgraph, columns, *summed)) spaces.push_back(*space);
  }
  return spaces;
}

}  // namespace

AxisStrides axis_strides(const BodyAxes& axes, Value value, const TensorLayout& layout) {
  AxisStrides strides(axes.sizes.size(), 0);
  const std::vector<std::vector<int>>& dims = axes.of[value.id];
  for (std::size_t i = 0; i < dims.size(); ++i) {
    std::int64_t stride = layout.strides[i];
    for (auto axis = dims[i].rbegin(); axis != dims[i].rend(); ++axis) {
      strides[static_cast<std::size_t>(*axis)] = stride;
      stride *= axes.sizes[static_cast<std::size_t>(*axis)];
    }
  }
  return strides;
}

AxisSet Subgraph::all_axes() const {
  AxisSet all;
  for (const NodeId id : nodes) {
    for (const Value value : body.node(id).outputs) all |= axes.set_of(value);
  }
  return all;
}

Value Subgraph::output(int index) const { return body.outputs()[static_cast<std::size_t>(index)].value; }

AxisStrides Subgraph::strides_of(const Node& node) const {
  const Value value = node.outputs[0];
  if (node.op == Op::input) {
    const auto index = static_cast<std::size_t>(std::stoi(node.attributes.get<std::string>("name")));
    return axis_strides(axes, value, inputs[index]);
  }
  TensorLayout layout;
  const std::int64_t axis = node.attributes.get<std::int64_t>("axis");
  const int rank = body.type(value).shape.rank();
  layout.strides[static_cast<std::size_t>(normalise_axis(axis, rank))] = 1;
  return axis_strides(axes, value, layout);
}

RowAccess ChosenSpace::access(DType dtype, const AxisStrides& strides) const {
  RowAccess result;
  result.dtype = dtype;
  for (std::size_t i = 0; i < row_axes.size(); ++i) result.row_strides[i] = at(strides, row_axes[i]);
  if (column_axis != kNoAxis) result.column_stride = at(strides, column_axis);
  return result;
}

std::vector<ChosenSpace> choose_spaces(const Subgraph& subgraph) {
  std::vector<ChosenSpace> spaces = spaces_of(subgraph);
  // Dimensions that reshapes split can be more axes than a space has.
  std::erase_if(spaces, [](const ChosenSpace& space) { return space.row_axes.size() >= kMaxRank; });
  return spaces;
}

}  // namespace ridgepoint
