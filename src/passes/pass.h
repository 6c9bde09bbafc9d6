// Passes rewrite a graph. All of them stand in one list (src/compile/pipeline.cpp), whose runner skips, times, shows
// and verifies them.
#pragma once

#include <functional>
#include <string_view>

#include "ops/layout.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// What passes ask of the device that the graph is compiled for.
struct PassTarget {
  // The node need not stand in the graph; its operands do.
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
  std::string_view name;                                  // a verb phrase; the same string in its file and options
  bool (*run)(Graph& graph, const PassOptions& options);  // returns whether it changed anything
};

// From the forward graph to the training graph (src/passes/training/). On a graph that has a backward phase they do
// nothing.
bool select_outputs(Graph& graph, const PassOptions& options);
bool keep_activations(Graph& graph, const PassOptions& options);
bool recognise_attention(Graph& graph, const PassOptions& options);
bool scale_loss(Graph& graph, const PassOptions& options);
bool differentiate_outputs(Graph& graph, const PassOptions& options);
bool append_optimizer(Graph& graph, const PassOptions& options);
bool unscale_gradients(Graph& graph, const PassOptions& options);

// From there to what runs; they keep the values.
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
