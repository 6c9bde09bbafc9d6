// Predicts the time of collectives from the links between ranks.
#pragma once

#include <optional>

#include "ridgepoint/graph.h"
#include "ridgepoint/network.h"

namespace ridgepoint {

// The network of a machine with eight cards of this kind, by the published rate of its links; empty where they have
// none.
std::optional<Network> network_of_card(std::optional<double> link_bytes_per_second);

// Whether ranks of a machine are connected faster than PCIe does, as by NVLink.
bool has_fast_links(const Network& network);

// Seconds of a collective node that runs alone. Bytes: what each rank of a ring sends (ops/collectives.h), at the rate
// of the slowest step of the ring times the share of it that long messages reach. There are as many rings as ranks on
// the machine with the fewest, each with a part of the data and the link between machines of another rank. Pieces of
// the data go through the ring one behind the other: with the best size of pieces, sending for t takes 2 sqrt(l t)
// more, l being the latency of the slowest link. Latency: a launch, a message for each level of a tree over the ranks
// of a machine and one over machines, there and back for all_reduce. Throws Error (usage) where the ranks need several
// machines and the network has one.
double collective_seconds(const Network& network, const Graph& graph, const Node& node);

}  // namespace ridgepoint
