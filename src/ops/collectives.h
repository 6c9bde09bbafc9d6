// What collectives send, and what that costs on the network.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// The attribute of an all_gather whose first operands are the tensors that its results overwrite, where it is true.
inline constexpr std::string_view kInto = "into";

// The attribute of a collective with the number of later collectives that may begin before it must have ended, so that
// its operands are freed; without it, launches wait for it where they read its results.
inline constexpr std::string_view kInFlight = "in_flight";

// The least bytes that GPUs' copy engines send where they reach each other's memory: of sums that lie one behind
// another, and of a tensor that is scattered or gathered. They leave multiprocessors to kernels, but the ranks wait for
// one another before and after each copy, so less is sent by kernels.
inline constexpr std::size_t kLeastBytesOfCopiedSums = std::size_t{1} << 20;
inline constexpr std::size_t kLeastBytesOfCopies = std::size_t{4} << 20;
// The most bytes of a tensor that they scatter: as much memory has what other ranks send.
inline constexpr std::size_t kMostBytesOfCopiedScatter = std::size_t{64} << 20;

// The operands of a collective that it sends, one for each result: all but the tensors of an all_gather into them.
std::span<const Value> sent_operands(const Node& node);

// The bytes that each rank of a ring sends (and receives): 2 (n - 1) / n of the data for all_reduce, (n - 1) / n of the
// larger side for reduce_scatter and all_gather, and the data once for collective_broadcast, which all but the last
// rank of a chain send. This is the "bus" convention of nccl-tests. Throws Error for another op.
double wire_bytes(const Graph& graph, const Node& node);

}  // namespace ridgepoint
