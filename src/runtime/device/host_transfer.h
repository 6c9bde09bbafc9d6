// Transfers on devices whose memory is the host's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace ridgepoint {

// The kernel of a copy_from_host or copy_to_host. It ends before launch() returns.
std::unique_ptr<Kernel> make_host_transfer(const KernelSpec& spec);

// The bytes that a transfer copies from each of its operands to the result of the same number.
std::vector<std::size_t> bytes_of_copies(const KernelSpec& transfer);

}  // namespace ridgepoint
