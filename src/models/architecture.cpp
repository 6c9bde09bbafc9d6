#include "models/architecture.h"

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kNorms = enum_names<Norm>("rms_norm", "layer_norm");
constexpr auto kPlacements = enum_names<NormPlacement>("before", "after", "both");
constexpr auto kActivations = enum_names<Activation>("silu", "gelu", "gelu_tanh", "relu");
constexpr auto kPositions = enum_names<Positions>("rotary", "learned");
constexpr auto kProjectionNorms = enum_names<ProjectionNorm>("none", "per_head", "whole");
constexpr auto kScalings = enum_names<RotaryScaling>("none", "linear", "llama3");

}  // namespace

std::string_view name(Norm norm) { return kNorms[norm]; }
std::string_view name(NormPlacement placement) { return kPlacements[placement]; }
std::string_view name(Activation activation) { return kActivations[activation]; }
std::string_view name(Positions positions) { return kPositions[positions]; }
std::string_view name(ProjectionNorm norm) { return kProjectionNorms[norm]; }
std::string_view name(RotaryScaling scaling) { return kScalings[scaling]; }

}  // namespace ridgepoint
