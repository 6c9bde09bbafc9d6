#include "compile/pipeline.h"

#include <array>

#include "passes/autocast.h"

namespace ridgepoint {
namespace {

bool run_autocast(Graph& graph, const PassOptions& options) {
  return autocast(graph, {options.precision, options.force_low});
}

bool run_recognise_attention(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && recognise_attention(graph, options);
}

constexpr std::array kPipeline = {
    // From the forward graph to the training graph.
    Pass{"select_outputs", select_outputs},
    Pass{"keep_activations", keep_activations},
    // Before differentiation, so that gradients of low values are low and gradients of parameters are fp32.
    Pass{"autocast", run_autocast},
    // After autocast, because the kernels depend on the dtype. Before differentiation, so that the op's own derivative
    // is
    // used, which saves less for backward.
    Pass{"recognise_attention", run_recognise_attention},
    // Activation checkpointing belongs here.
    Pass{"scale_loss", scale_loss},
    Pass{"differentiate_outputs", differentiate_outputs},
    // The all-reduce of gradients over several devices belongs here.
    Pass{"append_optimizer", append_optimizer},
    Pass{"unscale_gradients", unscale_gradients},

    // From the training graph to the graph that runs.
    Pass{"eliminate_dead_code", eliminate_dead_code},
    Pass{"simplify_algebra", simplify_algebra},
    // Before composites are decomposed, because there are fewer nodes to compare.
    Pass{"eliminate_common_subexpressions", eliminate_common_subexpressions},
    // After chains of views are merged: both look for a transpose that reads a node directly.
    Pass{"orient_matmuls", orient_matmuls},
    Pass{"orient_rotations", orient_rotations},
    Pass{"group_optimizer", group_optimizer},
    // Fusion of groups of nodes into one node with a body belongs here.
    Pass{"decompose_composites", decompose_composites},
    // After every pass that changes views, because it depends on their strides.
    Pass{"insert_copies", insert_copies},
    // After every pass that moves or replaces nodes, because it depends on their order.
    Pass{"make_updates_in_place", make_updates_in_place},
    Pass{"eliminate_dead_code", eliminate_dead_code},
};
constexpr std::size_t kTrainingPasses = 8;
static_assert(kPipeline[kTrainingPasses - 1].name == "unscale_gradients");

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }
std::span<const Pass> training_passes() { return pipeline().first(kTrainingPasses); }

}  // namespace ridgepoint
