#include "backends/cpu/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "core/rounding.h"

namespace ridgepoint::cpu {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
// More than any packing buffer takes.
constexpr int kKeptBytes = 256 << 20;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* map(std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

}  // namespace

void* map_pages(std::size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const std::size_t whole_bytes = round_up(bytes == 0 ? 1 : bytes, page_bytes());
  if (whole_bytes < kHugePageBytes) return map(whole_bytes);
  // mmap() aligns to small pages only: a longer mapping has an aligned address, and the rest is unmapped.
  std::byte* first = map(whole_bytes + kHugePageBytes);
  if (first == nullptr) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::size_t before = round_up(address, kHugePageBytes) - address;
  const std::size_t after = kHugePageBytes - before;
  if (before > 0) munmap(first, before);
  if (after > 0) munmap(first + before + whole_bytes, after);
  madvise(first + before, whole_bytes, MADV_HUGEPAGE);  // advice only: small pages work as well
  return first + before;
}

void unmap_pages(void* address, std::size_t bytes) { munmap(address, round_up(bytes == 0 ? 1 : bytes, page_bytes())); }

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kKeptBytes);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

}  // namespace ridgepoint::cpu
