// Compilation of a graph for a device: the list of passes (src/passes/pass_list.def) and its runner, from the forward
// graph to the graph that is planned.
#pragma once

#include <span>

#include "passes/pass.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/compile.h"

namespace ridgepoint {

std::span<const Pass> pipeline();
// The passes at the beginning of the list, from the forward graph to the training graph.
std::span<const Pass> training_passes();

// Runs `passes` up to options.until, except those in options.skip. Throws Error (usage) for an unknown pass name. Also
// throws the errors of the passes, and with options.verify the errors of verify() after each pass, with the name of the
// pass; without it, the errors of verify_operands() after the last pass.
void run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options);

// Runs all passes, up to options.until. If the graph already has a backward phase, runs only the passes after
// training_passes(), and throws Error if the options need a training pass.
Graph compile(Graph graph, const PassTarget& target, const CompileOptions& options);

}  // namespace ridgepoint
