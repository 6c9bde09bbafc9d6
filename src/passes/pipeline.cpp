#include <array>

#include "passes/pass.h"

namespace ridgepoint {

std::span<const Pass> pipeline() {
  static constexpr std::array kPipeline = {
      Pass{"eliminate_dead_code", eliminate_dead_code},
      Pass{"simplify_algebra", simplify_algebra},
      // Before composites fall apart: fewer nodes to compare.
      Pass{"eliminate_common_subexpressions", eliminate_common_subexpressions},
      Pass{"decompose_composites", decompose_composites},
      // Last: it looks at the strides that the views left by the passes above give.
      Pass{"insert_copies", insert_copies},
      Pass{"eliminate_dead_code", eliminate_dead_code},
  };
  return kPipeline;
}

}  // namespace ridgepoint
