// The allocator of a static plan: reserves one segment, the arena, when it is constructed, and gives each block of the
// plan the address that the plan chose (plan/arena.h). It counts and traces live blocks as the caching allocator does,
// so that allocated bytes are those of live blocks and reserved bytes are those of the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memory/allocator.h"
#include "memory/memory_account.h"
#include "plan/arena.h"

namespace ridgepoint {

class ArenaAllocator final : public Allocator {
 public:
  // Throws OutOfMemory if the arena is larger than `limit_bytes` or the device has no such segment. The memory must
  // outlive the allocator, whose destructor returns the arena to it. `trace` may be null.
  ArenaAllocator(DeviceMemory& memory, Arena arena, std::optional<std::size_t> limit_bytes = std::nullopt,
                 MemoryTrace* trace = nullptr);
  ~ArenaAllocator() override;
  ArenaAllocator(const ArenaAllocator&) = delete;
  ArenaAllocator& operator=(const ArenaAllocator&) = delete;

  // The address of the lifetime `index`. Throws Error if `index` is none of the plan's, if the plan has another size
  // for it, or if it is live already. Uses no host heap.
  void* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node, std::uint32_t index) override;
  // Throws Error for an address at which no live block begins.
  void free(void* address) override;
  bool can_skip_requests() const override { return !account_.has_trace(); }
  FixedMemory fixed_memory() const override;
  MemoryUse use() const override { return account_.use(); }
  CategoryBytes allocated_by_category() const override { return account_.allocated_by_category(); }
  CategoryBytes peak_by_category() const override { return account_.peak_by_category(); }
  void reset_peak() override { account_.reset_peak(); }
  void set_trace(MemoryTrace* trace) override { account_.set_trace(trace); }

 private:
  void reserve(std::optional<std::size_t> limit_bytes);
  [[noreturn]] void fail(std::size_t capacity_bytes);

  DeviceMemory& memory_;
  Arena arena_;
  std::uintptr_t base_ = 0;    // 0 for an arena of no bytes
  std::vector<Block> blocks_;  // by index
  AddressMap live_;
  MemoryAccount account_;
};

}  // namespace ridgepoint
