// Transfers on devices whose memory is the host's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace ridgepoint {

// The kernel of a copy_from_host or copy_to_host. It ends before launch() returns.
std::unique_ptr<Kernel> make_host_transfer(const KernelSpec& spec);

// What a transfer copies to each of its results.
struct TransferCopy {
  std::size_t operand = 0;  // its number
  std::size_t bytes = 0;
};
std::vector<TransferCopy> copies_of(const KernelSpec& transfer);

}  // namespace ridgepoint
