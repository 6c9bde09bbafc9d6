// What runs beside other launches; what collectives send, and what that costs on the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// The attribute of an all_gather whose first operands are the tensors that its results overwrite, where it is true.
inline constexpr std::string_view kInto = "into";

// The attribute of a launch beside others with the number of later ones of its class that may begin before it must have
// ended, so that its operands are freed; without it, launches wait for it where they read its results.
inline constexpr std::string_view kInFlight = "in_flight";

// The attribute of an update that runs beside the launches that follow it, where it is true.
inline constexpr std::string_view kBeside = "beside";

// The attribute of an all_gather of the gradients of embedded tokens, where it is true.
inline constexpr std::string_view kOfTokens = "of_tokens";

// What an all_gather of a training step gathers: new parameters into the old ones, behind the updates that ranks make
// of their parts; weights of which ranks store parts, ahead of what reads them; or the gradients of embedded tokens.
enum class Gather : std::uint8_t { new_parameters, weights, tokens };
inline bool is_gather_of(const Node& node, Gather what) {
  if (node.op != Op::all_gather) return false;
  if (node.attributes.get_or(kOfTokens, false)) return what == Gather::tokens;
  return what == (node.phase == Phase::optimizer ? Gather::new_parameters : Gather::weights);
}

// Whether the launch of a node runs beside those that follow it, until one reads its results or overwrites its
// operands.
inline bool runs_beside(const Node& node) { return runs_beside(node.op) || node.attributes.get_or(kBeside, false); }

// The attribute of a collective that no launch runs beside, where it is true: the next one that is no collective waits.
inline constexpr std::string_view kExposed = "exposed";

// The most bytes of a tensor that GPUs' copy engines scatter: as much memory has what other ranks send.
inline constexpr std::size_t kMostBytesOfCopiedScatter = std::size_t{64} << 20;

// Whether the copy engines of GPUs that reach each other's memory send so many bytes of a collective: a tensor that is
// scattered or gathered, or sums that lie one behind another. They leave multiprocessors to kernels, but the ranks wait
// for one another before and after each copy, so less is sent by kernels. New parameters beside updates are gathered by
// one kernel for all of them, which is faster.
inline bool are_sent_by_copies(const Node& node, std::size_t bytes) {
  constexpr std::size_t kLeastBytes = std::size_t{1} << 20;
  if (node.phase == Phase::optimizer || bytes < kLeastBytes) return false;
  if (node.op == Op::reduce_scatter) return bytes <= kMostBytesOfCopiedScatter;
  return node.op == Op::all_reduce || node.op == Op::all_gather;
}

// The operands of a collective that it sends, one for each result: all but the tensors of an all_gather into them.
std::span<const Value> sent_operands(const Node& node);

// The bytes that each rank of a ring sends (and receives): 2 (n - 1) / n of the data for all_reduce, (n - 1) / n of the
// larger side for reduce_scatter and all_gather, and the data once for collective_broadcast, which all but the last
// rank of a chain send. This is the "bus" convention of nccl-tests. Throws Error for another op.
double wire_bytes(const Graph& graph, const Node& node);

}  // namespace ridgepoint
