// The processor and memory of this machine, as the operating system reports them.
#pragma once

#include <cstddef>
#include <string>

namespace ridgepoint::cpu {

// The model name in /proc/cpuinfo; "CPU" if it has none.
std::string processor_name();

// Physical memory, or the smallest limit of this process's control groups if that is less.
std::size_t usable_memory_bytes();

// The bytes that could be allocated now without swapping, by Linux's estimate, or the bytes that the control groups
// still allow if that is less; SIZE_MAX if neither is known.
std::size_t available_memory_bytes();

}  // namespace ridgepoint::cpu
