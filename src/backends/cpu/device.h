// The CPU back end: the kernels of this folder on all cores, with memory from the operating system in huge pages.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint::cpu {

// The instruction set that the CPU back end uses: the widest that the processor and the libraries have, or a narrower
// one that an environment variable asks for, so that one machine can stand in for an older one.

// The environment variable. It limits the kernels of Highway and oneDNN to avx2, or to avx512 (no bf16 products, no
// AMX); unset or empty means no limit. It is read when the program is loaded, before either library chooses a kernel.
inline constexpr const char* kInstructionSetVariable = "RIDGEPOINT_CPU_ISA";

// Throws Error (usage) if the variable has another value.
void require_known_instruction_set();

// The widest instruction set in use: avx2, avx512, avx512_bf16 or amx; empty if oneDNN reports another one.
std::string_view instruction_set();

// Memory of the CPU back end, taken directly from the operating system.

// Zeroed pages, aligned to at least 512 bytes, or null. From 2 MiB on they are aligned to 2 MiB and Linux is asked for
// huge pages: the first touch of a gigabyte then takes 0.14 s instead of 0.35 s, and kernels have fewer TLB misses.
void* map_pages(std::size_t bytes);
// `bytes` must be the size that was mapped.
void unmap_pages(void* address, std::size_t bytes);

// Makes malloc keep freed memory. oneDNN's SGEMM allocates its packing buffers at every call; by default glibc returns
// them to the system and faults the pages in again, which takes a tenth of the time of a small product.
void keep_freed_memory();

}  // namespace ridgepoint::cpu

namespace ridgepoint {

// `options.threads` applies to the whole process: the device that was opened last decides. total_memory_bytes() is the
// memory that this process may use (the machine's, or the limit of its control group), or `options.memory_limit_bytes`
// if that is smaller; allocate_memory() stays within it. Throws Error (usage) for a negative thread count.
std::shared_ptr<Device> make_cpu_device(const DeviceOptions& options = {});

}  // namespace ridgepoint
