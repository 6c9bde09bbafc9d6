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
    // Before differentiation, so that the gradient of a low value is low and that of a parameter fp32.
    Pass{"autocast", run_autocast},
    // After autocast, so that kernels are asked for in the types they will have; before differentiation, so that the
    // derivative is that of the op and nothing is saved that it does not need.
    Pass{"recognise_attention", run_recognise_attention},
    // Activation checkpointing stands here: it says which values backward computes again.
    Pass{"scale_loss", scale_loss},
    Pass{"differentiate_outputs", differentiate_outputs},
    // Collectives stand here: gradients are summed over devices before the optimizer reads them.
    Pass{"append_optimizer", append_optimizer},
    Pass{"unscale_gradients", unscale_gradients},

    // From the training graph to what runs.
    Pass{"eliminate_dead_code", eliminate_dead_code},
    Pass{"simplify_algebra", simplify_algebra},
    // Before composites are decomposed: there are fewer nodes to compare.
    Pass{"eliminate_common_subexpressions", eliminate_common_subexpressions},
    // After views are folded: it looks at how the readers of a product transpose it.
    Pass{"orient_matmuls", orient_matmuls},
    Pass{"orient_rotations", orient_rotations},
    Pass{"group_optimizer", group_optimizer},
    // Fusion stands here: groups of nodes become one node with a body.
    Pass{"decompose_composites", decompose_composites},
    // After every pass that folds views: it looks at the strides of the views that are left.
    Pass{"insert_copies", insert_copies},
    // After every pass that rewrites: it looks at who makes and who reads what, and in which order.
    Pass{"make_updates_in_place", make_updates_in_place},
    Pass{"eliminate_dead_code", eliminate_dead_code},
};
constexpr std::size_t kTrainingPasses = 8;
static_assert(kPipeline[kTrainingPasses - 1].name == "unscale_gradients");

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }
std::span<const Pass> training_passes() { return pipeline().first(kTrainingPasses); }

}  // namespace ridgepoint
