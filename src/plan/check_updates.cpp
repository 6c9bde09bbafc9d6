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

void check_maker(const Graph& graph, const Update& update, std::span<const ValueLayout> layouts) {
  const Node& maker = graph.producer_node(update.value);
  const std::string op = "'" + std::string(name(maker.op)) + "'";
  if (!launches(maker.op)) refuse(graph, update, "its value is made by " + op + ", which runs no kernel");
  const auto result = std::ranges::find(maker.outputs, update.value) - maker.outputs.begin();
  if (!can_write_over(maker, static_cast<std::size_t>(result), update.input, layouts))
    refuse(graph, update, op + " reads the input otherwise than element for element");
}

}  // namespace

void check_updates(const Graph& graph, std::span<const ValueLayout> layouts) {
  std::vector<const Update*> made(graph.value_count());  // by value: the update that it is
  for (const Update& update : graph.updates()) {
    check_maker(graph, update, layouts);
    if (made[update.value.id] != nullptr) refuse(graph, update, "its value updates another input too");
    made[update.value.id] = &update;
  }
  std::vector<const Update*> written(graph.value_count());  // by input: its update, once it is made
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!launches(node.op)) continue;
    for (const Value value : node.inputs) {
      const Update* update = written[layouts[value.id].root.id];
      if (update == nullptr) continue;
      refuse(graph, *update, "'" + std::string(name(node.op)) + "' reads the old value after the new one is made");
    }
    for (const Value value : node.outputs) {
      if (made[value.id] != nullptr) written[made[value.id]->input.id] = made[value.id];
    }
  }
  for (const Output& output : graph.outputs()) {
    const Update* update = written[layouts[output.value.id].root.id];
    if (update != nullptr) refuse(graph, *update, "output '" + output.name + "' is the old value");
  }
}

}  // namespace ridgepoint
