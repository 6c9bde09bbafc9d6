// Rewrites updates so that a kernel can write every new value over the old one. All updates of a graph are one parallel
// assignment (Update in graph.h). A new value that no kernel can write in place (a view, an input, a constant, the
// value of another update, the result of an op that reads the input in another order) is copied at the end of the
// graph. If a node reads an old value after it is overwritten, the node reads a copy instead. make_plan() refuses any
// other graph.

#include "ir/rewriter.h"
#include "ops/layout.h"
#include "ops/overwrite.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

class UpdatePlacer {
 public:
  explicit UpdatePlacer(Graph& graph)
      : graph_(graph),
        rewriter_(graph),
        updates_(graph.updates().begin(), graph.updates().end()),
        layouts_(value_layouts(graph)) {}

  bool run() {
    drop_assignments_to_itself();
    copy_values_not_written_in_place();
    find_last_reads();
    for (const Update& update : updates_) {
      if (last_read_[update.input.id] > written_at(update)) keep_old_value(update);
    }
    if (!changed_) return false;
    redirect_late_readers();
    graph_.clear_updates();
    for (const Update& update : updates_) graph_.add_update(update.input, update.value);
    return true;
  }

 private:
  Value root(Value value) const { return layouts_[value.id].root; }
  // Whether the value is its whole storage, in order.
  bool is_whole(Value value) const {
    return layouts_[value.id].layout.is_dense() && graph_.type(value).elements() == graph_.type(root(value)).elements();
  }
  std::size_t written_at(const Update& update) const { return position_[graph_.producer(update.value).id]; }

  void drop_assignments_to_itself() {
    changed_ = std::erase_if(updates_, [&](const Update& update) {
                 return root(update.value) == update.input && is_whole(update.value);
               }) > 0;
  }

  void copy_values_not_written_in_place() {
    std::vector<bool> is_taken(graph_.value_count());
    std::vector<std::size_t> copied;
    const std::vector<bool> in_place = are_written_in_place(graph_, updates_, layouts_);
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      const Value value = updates_[i].value;
      if (in_place[i] && !is_taken[value.id]) {
        is_taken[value.id] = true;
      } else {
        copied.push_back(i);
      }
    }
    update_by_old_.resize(graph_.value_count(), kNone);
    for (const std::size_t i : readers_first(copied)) append_copy(i);
  }

  // Topological order of the copies. If the new value of one input is the old value of another, the first is updated
  // before the second, so the old value needs no further copy. A cycle starts anywhere.
  std::vector<std::size_t> readers_first(const std::vector<std::size_t>& copied) const {
    std::vector<std::size_t> update_of(graph_.value_count(), kNone);  // by the input's value
    for (const std::size_t i : copied) update_of[updates_[i].input.id] = i;
    const auto read_by = [&](std::size_t i) {
      const std::size_t other = update_of[root(updates_[i].value).id];
      return other == i ? kNone : other;
    };
    std::vector<std::size_t> readers(updates_.size());
    for (const std::size_t i : copied) {
      if (read_by(i) != kNone) ++readers[read_by(i)];
    }
    std::vector<std::size_t> order;
    std::vector<bool> is_placed(updates_.size());
    const auto place_from = [&](std::size_t i) {
      while (i != kNone && !is_placed[i]) {
        is_placed[i] = true;
        order.push_back(i);
        i = read_by(i);
        if (i != kNone && --readers[i] > 0) return;
      }
    };
    for (const std::size_t i : copied) {
      if (readers[i] == 0) place_from(i);
    }
    for (const std::size_t i : copied) place_from(i);
    return order;
  }

  void append_copy(std::size_t index) {
    changed_ = true;
    Update& update = updates_[index];
    const Value value = update.value;
    rewriter_.insert_at_end(graph_.producer(value));
    graph_.set_phase(graph_.node(graph_.order().back()).phase);
    // A transposed or flipped old value cannot be written over itself, so it is copied twice.
    update.value = copy_of(root(value) == update.input ? copy_of(value) : value);
    if (is_whole(value) && update_by_old_[root(value).id] == kNone) update_by_old_[root(value).id] = index;
  }

  Value copy_of(Value value) {
    const Value made = rewriter_.copy(value);
    assign_layouts(graph_, graph_.producer_node(made), layouts_);
    return made;
  }

  // Positions count from 1. The last read is 0 where nothing reads, and kNone (the largest) for an output.
  void find_last_reads() {
    position_.resize(graph_.node_capacity());
    last_read_.resize(graph_.value_count());
    std::size_t position = 0;
    for (const NodeId id : graph_.order()) {
      position_[id.id] = ++position;
      const Node& node = graph_.node(id);
      if (!launches(node.op)) continue;
      for (const Value value : node.inputs) last_read_[root(value).id] = position;
    }
    for (const Output& output : graph_.outputs()) last_read_[root(output.value).id] = kNone;
    old_.resize(graph_.value_count());
  }

  // The copy may also become the new value of another input, if nothing reads that input's old value later.
  void keep_old_value(const Update& update) {
    changed_ = true;
    rewriter_.insert_before(graph_.producer(update.value));
    const Value kept = copy_of(update.input);
    position_.resize(graph_.node_capacity(), written_at(update));
    old_[update.input.id] = {kept, written_at(update)};
    const std::size_t other = update_by_old_[update.input.id];
    if (other == kNone || !(graph_.type(updates_[other].input) == graph_.type(kept))) return;
    if (last_read_[updates_[other].input.id] < written_at(update)) updates_[other].value = kept;
  }

  void redirect_late_readers() {
    for (const NodeId id : nodes_of(graph_)) {
      Node& node = graph_.node(id);
      if (!launches(node.op)) continue;
      for (Value& value : node.inputs) {
        if (!is_late(value, position_[id.id])) continue;
        if (!is_kept(value)) rewriter_.insert_before(id);
        value = with_kept_value(value);
      }
    }
    graph_.set_insertion_at_end();
    rewrite_outputs(graph_, [&](Output& output) {
      if (is_late(output.value, kNone)) output.value = with_kept_value(output.value);
    });
  }

  bool is_late(Value value, std::size_t position) const {
    const OldValue& old = old_[root(value).id];
    return old.kept.valid() && position > old.overwritten_at;
  }
  bool is_kept(Value value) const { return value.id < old_.size() && old_[value.id].kept.valid(); }

  // The value with the copy in place of the input below its views.
  Value with_kept_value(Value value) {
    std::vector<Value> views;
    for (; !is_kept(value); value = graph_.producer_node(value).inputs[0]) views.push_back(value);
    Value kept = old_[value.id].kept;
    for (auto view = views.rbegin(); view != views.rend(); ++view) {
      kept = rewriter_.rebuild_view(*view, kept);
      old_[view->id] = {kept, 0};
    }
    return kept;
  }

  struct OldValue {
    Value kept;                      // a copy of an input's old value, or a view of the copy
    std::size_t overwritten_at = 0;  // position of the node that overwrites it; of inputs
  };

  Graph& graph_;
  Rewriter rewriter_;
  std::vector<Update> updates_;
  std::vector<ValueLayout> layouts_;
  std::vector<std::size_t> update_by_old_;  // by input: the update by its whole old value
  std::vector<std::size_t> position_;       // by node
  std::vector<std::size_t> last_read_;      // by the value whose storage is read
  std::vector<OldValue> old_;               // by value
  bool changed_ = false;
};

}  // namespace

bool make_updates_in_place(Graph& graph, const PassOptions&) {
  return !graph.updates().empty() && UpdatePlacer(graph).run();
}

}  // namespace ridgepoint
