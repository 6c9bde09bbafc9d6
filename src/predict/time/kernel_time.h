// The time of a kernel on a GPU that is known by its datasheet, from the rates of its row in the table of variants
// (runtime/device/kernel_rate.h).
#pragma once

#include <optional>

#include "predict/cards/datasheet.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// The seconds of one launch. Capturing launches shortens the fixed part.
struct KernelTime {
  double fixed = 0;
  double work = 0;  // max(operations / rate, bytes / bandwidth)
};

// Whether the datasheet has the rates that kernel_time() needs: of bf16, tf32 and fp32.
bool has_rates(const Datasheet& card);

// Of a launch of the node. Empty without a rate. Operations of attention are 4 batch queries keys width, half of that
// if causal, those of the pairs that a window leaves, 2.5 times as many backward; the tiles' padding counts in
// addition. No call takes less time than its bytes, nor than its longest block on one multiprocessor, except where
// multiprocessors share blocks. Heads that share keys make no fewer products, only fewer bytes.
std::optional<KernelTime> kernel_time(const Graph& graph, const Node& node, const KernelRate& rate,
                                      const Datasheet& card);

}  // namespace ridgepoint
