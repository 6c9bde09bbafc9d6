// Memory for the CPU back end, straight from the operating system.
#pragma once

#include <cstddef>

namespace ridgepoint::cpu {

// Zeroed pages, aligned to 512 bytes at least. From 2 MiB on they are aligned to 2 MiB and the kernel is asked for
// huge pages: the first touch of a gigabyte then takes 0.14 s instead of 0.35 s, and kernels miss the TLB less.
// Null when the system refuses.
void* map_pages(std::size_t bytes);
// `bytes` as they were mapped.
void unmap_pages(void* address, std::size_t bytes);

// Lets malloc keep what it is given back. oneDNN's SGEMM takes its packing buffers from malloc at every call; left
// alone, glibc returns them to the system and faults them in again, a tenth of the time of a small product.
void keep_freed_memory();

}  // namespace ridgepoint::cpu
