// Passes rewrite a graph. All of them stand in one list (pass_list.def); its runner (src/compile/compile.cpp) skips,
// times, shows and verifies them.
#pragma once

#include <functional>
#include <string_view>

#include "ops/layout.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/compile.h"

namespace ridgepoint {

// The properties of a device that passes depend on.
struct PassTarget {
  // The operands of the node must be in the graph; the node need not be.
  std::function<bool(const Graph&, const Node&)> has_kernel;
  std::function<OperandLayout(const Graph&, const Node&, int operand)> operand_layout;
  // Whether the kernel of an update can run beside others, as Device::runs_update_beside() says; null: none can.
  std::function<bool(const Graph&, const Node&)> runs_update_beside = nullptr;
  // Whether the kernel of the node can write strided results, as Device::writes_strided() says; null: none can.
  std::function<bool(const Graph&, const Node&)> writes_strided = nullptr;
  // Whether the kernel of the node can write padded rows, as Device::pads_rows() says; null: none can.
  std::function<bool(const Graph&, const Node&)> pads_rows = nullptr;
};

struct PassOptions : CompileOptions {
  PassOptions() = default;
  explicit PassOptions(CompileOptions options, PassTarget for_target = {})
      : CompileOptions(std::move(options)), target(std::move(for_target)) {}

  PassTarget target;
};

struct Pass {
  std::string_view name;                                  // a verb phrase; the same string in dumps and options
  bool (*run)(Graph& graph, const PassOptions& options);  // returns whether it changed anything
};

#define RIDGEPOINT_PASS(name) bool name(Graph& graph, const PassOptions& options);
#include "passes/pass_list.def"
#undef RIDGEPOINT_PASS

}  // namespace ridgepoint
