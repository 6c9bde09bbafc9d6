// The passes: functions that rewrite a graph. src/compile/pipeline.cpp lists them in order.
#pragma once

#include <functional>
#include <string_view>

#include "ops/layout.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// The properties of a device that passes depend on.
struct PassTarget {
  // The operands of the node must be in the graph; the node need not be.
  std::function<bool(const Graph&, const Node&)> has_kernel;
  std::function<OperandLayout(const Graph&, const Node&, int operand)> operand_layout;
};

struct PassOptions : CompileOptions {
  PassOptions() = default;
  explicit PassOptions(CompileOptions options, PassTarget for_target = {})
      : CompileOptions(std::move(options)), target(std::move(for_target)) {}

  PassTarget target;
};

struct Pass {
  std::string_view name;                                  // also the name of its file and the name in options
  bool (*run)(Graph& graph, const PassOptions& options);  // returns whether it changed anything
};

// From the forward graph to the training graph (src/passes/training/).
bool select_outputs(Graph& graph, const PassOptions& options);
bool keep_activations(Graph& graph, const PassOptions& options);
bool recognise_attention(Graph& graph, const PassOptions& options);
bool scale_loss(Graph& graph, const PassOptions& options);
bool differentiate_outputs(Graph& graph, const PassOptions& options);
bool append_optimizer(Graph& graph, const PassOptions& options);
bool unscale_gradients(Graph& graph, const PassOptions& options);

// From the training graph to the graph that runs. These do not change the values of outputs and updates.
bool eliminate_dead_code(Graph& graph, const PassOptions& options);
bool eliminate_common_subexpressions(Graph& graph, const PassOptions& options);
bool simplify_algebra(Graph& graph, const PassOptions& options);
bool orient_matmuls(Graph& graph, const PassOptions& options);
bool orient_rotations(Graph& graph, const PassOptions& options);
bool group_optimizer(Graph& graph, const PassOptions& options);
bool decompose_composites(Graph& graph, const PassOptions& options);
bool insert_copies(Graph& graph, const PassOptions& options);
bool make_updates_in_place(Graph& graph, const PassOptions& options);

}  // namespace ridgepoint
