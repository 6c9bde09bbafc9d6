// The allocator of a program, and what an error says about the blocks of its plan.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/allocator.h"
#include "plan/plan.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/memory/allocator_kind.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// "in backward at matmul of layers.3.attn.scores", "for the parameter 'lm_head.weight'": where the memory of a node is
// needed, as part of a message.
std::string place_of(const Graph& graph, const Node& node);

// The groups of blocks that take most of the memory at the step where most is live, the largest group first; at most
// `most` groups. The blocks of a group have the same op, size and category. `lifetimes` are those of the plan.
std::vector<MemoryShortage::Blocks> largest_blocks(const Graph& graph, const ExecutionPlan& plan,
                                                   std::span<const Lifetime> lifetimes, std::size_t most);

// An allocator for the requests of a plan that may take the whole memory of the device, or its limit. An arena is
// placed and reserved here: throws OutOfMemory, which names its largest blocks. `trace` may be null.
std::unique_ptr<Allocator> make_allocator(AllocatorKind kind, const Graph& graph, const ExecutionPlan& plan,
                                          const std::vector<Lifetime>& lifetimes, Device& device, MemoryTrace* trace);

}  // namespace ridgepoint
