// Whether results may be written over what their node reads, for nodes of many results: a node may update all
// parameters. can_write_over() of layout.h answers for one result.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ops/layout.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// The operand whose storage result `index` takes over, or SIZE_MAX.
std::size_t donated_operand(const Node& node, std::size_t index);

// can_write_over() to the storage in which `read` lie, operands of the node, all of those there; `donated` is
// donated_operand().
bool can_write_over(const Node& node, std::size_t index, std::size_t donated, std::span<const Value> read,
                    std::span<const ValueLayout> layouts);

// For each update, whether a kernel computes its value and can_write_over() its input. Takes time in proportion to the
// operands and results of the nodes.
std::vector<bool> are_written_in_place(const Graph& graph, std::span<const Update> updates,
                                       std::span<const ValueLayout> layouts);

}  // namespace ridgepoint
