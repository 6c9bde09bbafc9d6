#include "compile/pipeline.h"

namespace ridgepoint {
namespace {

constexpr Pass kPipeline[] = {
#define RIDGEPOINT_PASS(name) Pass{#name, name},
#include "passes/pass_list.def"
#undef RIDGEPOINT_PASS
};
constexpr std::size_t kTrainingPasses = 13;
static_assert(kPipeline[kTrainingPasses - 1].name == "unscale_gradients");

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }
std::span<const Pass> training_passes() { return pipeline().first(kTrainingPasses); }

}  // namespace ridgepoint
