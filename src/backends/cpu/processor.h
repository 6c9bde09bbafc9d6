// What the operating system says of this machine.
#pragma once

#include <cstddef>
#include <string>

namespace ridgepoint::cpu {

// The model as /proc/cpuinfo has it; "CPU" where it names none.
std::string processor_name();

// Physical memory, or the smallest limit of the control groups this process is in where that is less.
std::size_t usable_memory_bytes();

// What could be taken now without swapping, by the kernel's own estimate, or what the control groups still allow where
// that is less; SIZE_MAX where nothing is known.
std::size_t available_memory_bytes();

}  // namespace ridgepoint::cpu
