// One thread's state while it runs a tile program: the addresses of the slots, scalars, and running totals.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/tile/program.h"

namespace ridgepoint::cpu {

// This thread's memory for registers, aligned to a cache line.
std::byte* tile_scratch();

// The addresses of a worker's memory. Row buffers and column accumulators are contiguous, with `columns` elements each.
struct TileMemoryMap {
  void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  std::byte* row_buffers = nullptr;
  std::byte* accumulators = nullptr;
  std::int64_t columns = 0;
};

class TileWorker {
 public:
  // Evaluates the uniform steps. `program` must outlive the worker.
  TileWorker(const TileProgram& program, const TileMemoryMap& memory);
  TileWorker(const TileWorker&) = delete;
  TileWorker& operator=(const TileWorker&) = delete;

  void seek_row(std::int64_t row);
  // Moves to the first row of a group; the group may be empty.
  void seek_group(std::int64_t group);
  void next_row();

  // Resets the phase's reductions and computes its row values.
  void begin_phase(std::size_t phase) {
    const TilePhase& current = program_.phases[phase];
    for (const TileReduction& reduction : current.reductions) total(reduction.slot) = tile::identity(reduction.op);
    run(current.row_steps, 1);
  }
  // Runs the phase over columns [begin, end).
  void sweep(std::size_t phase, std::int64_t begin, std::int64_t end);
  void end_row() { run(program_.end_steps, 1); }
  // Runs every phase of the current row.
  void run_row();

  // The running total of a reduction or a row accumulation.
  double& total(TileSlot slot) { return *static_cast<double*>(address_[slot]); }
  // The address of an access at the current row, column 0.
  std::byte* row_address(TileSlot access) const { return reinterpret_cast<std::byte*>(row_address_[access]); }
  void set_accumulator(int number, std::uintptr_t column_zero);

 private:
  void run(const std::vector<TileStep>& steps, std::int64_t count) {
    for (const TileStep& step : steps)
      step.function(address_[step.result], address_[step.a], address_[step.b], address_[step.c], count, step.stride);
  }
  void set_row_address(TileSlot access, std::uintptr_t address) {
    row_address_[access] = address;
    address_[access] = reinterpret_cast<void*>(address);
  }
  void move_to_index();
  std::uintptr_t base_of(const TileAccess& access, const TileMemoryMap& memory) const;
  void point_slots(const TileMemoryMap& memory);

  const TileProgram& program_;
  std::int64_t index_[kMaxRank] = {};
  void* address_[kMaxTileSlots];  // by slot
  std::uintptr_t
      row_address_[kMaxTileAccesses + 1];      // by access slot; integers, because they may point outside the object
  std::uintptr_t base_[kMaxTileAccesses + 1];  // the same at row 0
  alignas(std::int64_t) std::byte scalars_[kMaxTileScalars][sizeof(std::int64_t)];  // a float or an integer each
  double totals_[kMaxTileReductions];
};

}  // namespace ridgepoint::cpu
