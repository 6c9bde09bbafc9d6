#include <array>

#include "passes/pass.h"

namespace ridgepoint {

std::span<const Pass> forward_pipeline() {
  static constexpr std::array kPipeline = {
      Pass{"recognise_attention", recognise_attention},
  };
  return kPipeline;
}

std::span<const Pass> simplifying_passes() { return pipeline().first(3); }

std::span<const Pass> pipeline() {
  static constexpr std::array kPipeline = {
      Pass{"eliminate_dead_code", eliminate_dead_code},
      Pass{"simplify_algebra", simplify_algebra},
      // Before composites fall apart: fewer nodes to compare.
      Pass{"eliminate_common_subexpressions", eliminate_common_subexpressions},
      // After views are folded: it looks at how a product's readers turn it.
      Pass{"orient_matmuls", orient_matmuls},
      Pass{"orient_rotations", orient_rotations},
      Pass{"group_optimizer", group_optimizer},
      Pass{"decompose_composites", decompose_composites},
      // After every pass that folds views: it looks at the strides that those left give.
      Pass{"insert_copies", insert_copies},
      // After every pass that rewrites: it looks at who makes and who reads what, and in which order.
      Pass{"make_updates_in_place", make_updates_in_place},
      Pass{"eliminate_dead_code", eliminate_dead_code},
  };
  return kPipeline;
}

}  // namespace ridgepoint
