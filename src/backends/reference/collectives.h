// What collectives mean: the oracle of every communicator.
#pragma once

#include <span>
#include <vector>

#include "ridgepoint/op.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint::reference {

// The result of each rank for one operand of each rank, all of one type. Sums are made in double, from rank 0 on, and
// rounded once. `root` is that of collective_broadcast.
std::vector<HostTensor> collective_results(Op op, std::span<const HostTensor> operands, std::size_t root = 0);

}  // namespace ridgepoint::reference
