#include "predict/block_memory.h"

#include "passes/graph_lines.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// Two blocks, an update of the second one's weight in backward, and behind it what is in no block.
constexpr const char* kUpdateInBackward = R"(
%0:fp32[128] = input() {name="x", role="data"}
%1:fp32[128] = input() {name="w", role="parameter"}
%2:fp32[128] = tanh(%0) @forward "layers.0.act" ""
%3:fp32[128] = mul(%2, %1) @forward "layers.1.scale" ""
%4:fp32[128] = mul(%3, %2) @backward "layers.1.scale" ""
%5:fp32[128] = sub(%1, %4) @optimizer "layers.1.scale" ""
%6:fp32[128] = neg(%3) @backward "" ""
%7:fp32[128] = mul(%6, %2) @backward "layers.0.act" ""
output "y" %7
update %1 %5
)";

TEST(BlockMemory, of_an_update_in_backward_is_what_is_outside_while_earlier_blocks_are_saved) {
  const Graph graph = testing::graph_of(kUpdateInBackward);
  MemoryTrace trace(64);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::input) continue;
    trace.record({.bytes = 512, .requested_bytes = 512, .node = id.id, .kind = MemoryEventKind::alloc});
    if (node.phase == Phase::optimizer)
      trace.record({.bytes = 512, .requested_bytes = 512, .node = id.id, .kind = MemoryEventKind::free});
  }
  const std::vector<std::string> blocks = {"layers.0", "layers.1"};
  // The gradient and the update, then the gradient and what is in no block, while the first block is saved.
  EXPECT_THAT(block_memory_of(graph, blocks, trace).outside_bytes, ElementsAre(0U, 1024U, 0U));
}

}  // namespace
}  // namespace ridgepoint
