// Where the updates of an optimizer may stand: an update is ready as soon as its gradients are summed over the ranks
// and nothing later reads the parameters that it overwrites.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

class UpdateOrder {
 public:
  explicit UpdateOrder(Graph& graph);

  // The nodes as they stood at first, and the position of each.
  std::span<const NodeId> nodes() const { return nodes_; }
  std::size_t position(NodeId id) const { return position_[id.id]; }
  // The position of the last node that must come before the update.
  std::size_t ready(NodeId update) const;
  // The position of the last node that reads the storage before it is updated, but for updates and gathers behind them.
  std::size_t last_read(Value storage) const { return last_read_[storage.id]; }
  // The positions of backward's products and attention, in order: updates stand behind these.
  std::span<const std::size_t> products() const { return products_; }
  // The input that is replaced by this value after a step.
  std::optional<Value> input_updated_by(Value value) const;

  // Puts the nodes into their new order: each list after the node at its position, `at_end` after all. Nodes that a
  // list needs and that do not stand before it, such as the step count, move with it; all other nodes stay.
  void reorder(const std::map<std::size_t, std::vector<NodeId>>& behind, const std::vector<NodeId>& at_end);

 private:
  void place(NodeId id);

  Graph& graph_;
  std::vector<NodeId> nodes_;
  std::vector<std::size_t> position_;   // by node
  std::vector<std::size_t> last_read_;  // by the value whose storage is read: by nodes that are no updates
  std::vector<std::size_t> ready_;      // by value: the position of the last node before the optimizer that leads to it
  std::vector<std::size_t> products_;
  std::map<Value, Value> updated_by_;  // the input, by its new value
  std::vector<bool> is_placed_;        // by node
  std::vector<NodeId> order_;
};

}  // namespace ridgepoint
