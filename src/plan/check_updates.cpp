#include "plan/check_updates.h"

#include <algorithm>
#include <string>

#include "ops/in_place.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

[[noreturn]] void refuse(const Graph& graph, const Update& update, const std::string& why) {
  const Node& input = graph.producer_node(update.input);
  throw Error("the update of input '" + input_name(input) + "' cannot be made in place: " + why +
                  "; run the pass make_updates_in_place first",
              ErrorKind::usage);
}

void check_producer(const Graph& graph, const Update& update, std::span<const ValueLayout> layouts) {
  const Node& producer = graph.producer_node(update.value);
  const std::string op = "'" + std::string(name(producer.op)) + "'";
  if (!launches(producer.op)) refuse(graph, update, "its value is the result of " + op + ", which runs no kernel");
  const auto result = std::ranges::find(producer.outputs, update.value) - producer.outputs.begin();
  if (!can_write_over(producer, static_cast<std::size_t>(result), update.input, layouts))
    refuse(graph, update, op + " reads the input in another order than it writes the new value");
}

}  // namespace

void check_updates(const Graph& graph, std::span<const ValueLayout> layouts) {
  std::vector<const Update*> update_of(graph.value_count());  // by value
  for (const Update& update : graph.updates()) {
    check_producer(graph, update, layouts);
    if (update_of[update.value.id] != nullptr) refuse(graph, update, "its value also updates another input");
    update_of[update.value.id] = &update;
  }
  std::vector<const Update*> written(graph.value_count());  // by input: set once its new value is written
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!launches(node.op)) continue;
    for (const Value value : node.inputs) {
      const Update* update = written[layouts[value.id].root.id];
      if (update == nullptr) continue;
      refuse(graph, *update, "'" + std::string(name(node.op)) + "' reads the old value after the new one is written");
    }
    for (const Value value : node.outputs) {
      if (update_of[value.id] != nullptr) written[update_of[value.id]->input.id] = update_of[value.id];
    }
  }
  for (const Output& output : graph.outputs()) {
    const Update* update = written[layouts[output.value.id].root.id];
    if (update != nullptr) refuse(graph, *update, "output '" + output.name + "' is the old value of the input");
  }
}

}  // namespace ridgepoint
