// The attribute of the node that adds the gradient of a micro-batch to the sum, where it is true. Such nodes stay apart
// when nodes are fused: one kernel for several of them would keep the gradients of all these micro-batches until the
// last is there.
#pragma once

#include <string_view>

namespace ridgepoint {

inline constexpr std::string_view kAccumulates = "accumulates";

}  // namespace ridgepoint
