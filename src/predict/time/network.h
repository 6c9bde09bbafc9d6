// Predicts the time of collectives from the links between ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "ridgepoint/core/network.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// The network of a machine with eight cards of this kind, by the published rate of its links; empty where they have
// none.
std::optional<Network> network_of_card(std::optional<double> link_bytes_per_second);

// Whether ranks of a machine are connected faster than PCIe does, as by NVLink.
bool has_fast_links(const Network& network);

// The rate and latency of a collective op among this number of ranks. There are as many rings as the machine with the
// fewest ranks has ranks; each ring sends a part of the data over the links of another rank. Throws Error (usage) if
// the ranks need several machines and the network has one.
struct Ring {
  double bytes_per_second = 0;  // that a rank sends in long messages, by the slowest step
  double message_seconds = 0;   // the latency of that step
  double overhead_seconds = 0;  // of a collective of no bytes: a launch, and a message for each level of a tree
};
Ring ring_of(const Network& network, std::int64_t ranks, Op op);

// The share of the published rate that long messages of the op reach between ranks of a machine.
double share_inside(const Network& network, Op op);

// Seconds of a collective node that runs alone, the sum of three times. t: the bytes that each rank of a ring sends
// (ops/collectives.h), at the rate of ring_of(). 2 sqrt(l t): pieces of the best size follow one another through the
// ring, and l is the latency of the slowest link. Latency: a launch, and a message for each level of a tree over the
// ranks of a machine and of a tree over machines, twice for all_reduce. Throws as ring_of() does.
double collective_seconds(const Network& network, const Graph& graph, const Node& node);

}  // namespace ridgepoint
