// Transfers on devices whose memory is the host's.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace ridgepoint {

// The kernel of a copy_from_host or copy_to_host. It ends before launch() returns.
std::unique_ptr<Kernel> make_host_transfer(const KernelSpec& spec);

// The operand that a transfer copies to its result of that number.
inline std::size_t copied_operand(const Node& transfer, std::size_t result) {
  return result + (transfer.op == Op::copy_to_host ? transfer.outputs.size() : 0);
}

}  // namespace ridgepoint
