// Passes rewrite a graph into one that computes the same values. The pipeline (pipeline.cpp) is one list, read top
// to bottom; the runner owns skipping, timing, dumping and verifying.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/layout.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint {

// What passes need to know of the device: the planner fills it from the device it compiles for.
struct PassTarget {
  // The node need not stand in the graph; its operands do.
  std::function<bool(const Graph&, const Node&)> has_kernel;
  std::function<OperandLayout(const Graph&, const Node&, int operand)> operand_layout;
};

struct PassOptions {
  PassTarget target;
  bool verify = false;                                            // verify() after every pass that changed something
  std::vector<std::string> skip;                                  // passes left out, by name
  StopPoint stop_point;                                           // called before every pass
  std::function<void(std::string_view pass, const Graph&)> dump;  // called after every pass that changed something
};

struct Pass {
  std::string_view name;  // a verb phrase; the same string in its file, dumps and options
  bool (*run)(Graph& graph, const PassOptions& options);  // returns whether it changed anything
};

struct PassResult {
  std::string_view name;
  bool changed = false;
  double milliseconds = 0;
};

// The passes every program goes through, in order.
std::span<const Pass> pipeline();
// The first of them, which take out work that nobody needs and ask nothing of a device.
std::span<const Pass> simplifying_passes();
// Those that a forward graph goes through where it was asked for (fuse() in compile.h), before it is differentiated.
std::span<const Pass> forward_pipeline();

// Throws Error for an unknown name in options.skip and whatever a pass or the verifier throws, naming the pass.
std::vector<PassResult> run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options);

bool recognise_attention(Graph& graph, const PassOptions& options);
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
