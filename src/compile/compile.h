// Compilation of a graph for a device: runs the passes (pipeline.h) from the forward graph to the graph that is
// planned.
#pragma once

#include "passes/pass.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// Runs all passes, up to options.until. For a graph that has a backward phase already, runs only the passes after
// training_passes(), and throws Error where the options need the others.
Graph compile(Graph graph, const PassTarget& target, const CompileOptions& options);

}  // namespace ridgepoint
