#include "backends/cpu/tile/worker.h"

#include <algorithm>

namespace ridgepoint::cpu {

std::byte* tile_scratch() {
  alignas(64) thread_local std::byte scratch[kTileScratchBytes];
  return scratch;
}

TileWorker::TileWorker(const TileProgram& program, const TileMemoryMap& memory) : program_(program) {
  point_slots(memory);
  run(program_.uniform_steps, 1);
}

std::uintptr_t TileWorker::base_of(const TileAccess& access, const TileMemoryMap& memory) const {
  const auto number = static_cast<std::size_t>(access.number);
  const auto elements = static_cast<std::uintptr_t>(memory.columns) * number;
  switch (access.memory) {
    case TileMemory::input: return reinterpret_cast<std::uintptr_t>(memory.inputs[number]);
    case TileMemory::output: return reinterpret_cast<std::uintptr_t>(memory.outputs[number]);
    case TileMemory::row_buffer:
      return reinterpret_cast<std::uintptr_t>(memory.row_buffers) + elements * program_.value_bytes;
    case TileMemory::accumulator:
      return reinterpret_cast<std::uintptr_t>(memory.accumulators) + elements * sizeof(float);
    case TileMemory::index: return 0;
  }
  return 0;
}

void TileWorker::point_slots(const TileMemoryMap& memory) {
  std::size_t slot = 0;
  address_[slot++] = nullptr;
  for (const TileAccess& access : program_.accesses) {
    base_[slot] = base_of(access, memory);
    set_row_address(static_cast<TileSlot>(slot), base_[slot]);
    ++slot;
  }
  // Steps only read constants, so const_cast is safe here.
  for (const float& constant : program_.constants) address_[slot++] = const_cast<float*>(&constant);
  for (std::size_t i = 0; i < program_.scalars; ++i) address_[slot++] = scalars_[i];
  for (std::size_t i = 0; i < program_.reductions; ++i) address_[slot++] = &totals_[i];
  std::byte* scratch = program_.registers > 0 ? tile_scratch() : nullptr;
  const std::size_t register_bytes = static_cast<std::size_t>(program_.tile_columns) * program_.value_bytes;
  for (std::size_t i = 0; i < program_.registers; ++i) address_[slot++] = scratch + i * register_bytes;
  for (const std::int64_t& integer : program_.integers) address_[slot++] = const_cast<std::int64_t*>(&integer);
}

void TileWorker::set_accumulator(int number, std::uintptr_t column_zero) {
  TileSlot slot = kNoSlot;
  for (const TileAccess& access : program_.accesses) {
    ++slot;
    if (access.memory == TileMemory::accumulator && access.number == number) set_row_address(slot, column_zero);
  }
}

void TileWorker::seek_row(std::int64_t row) {
  const auto& sizes = program_.space.rows;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    index_[d] = row % sizes[d];
    row /= sizes[d];
  }
  move_to_index();
}

void TileWorker::seek_group(std::int64_t group) {
  const auto& sizes = program_.space.rows;
  std::fill(std::begin(index_), std::end(index_), 0);
  for (auto d = static_cast<std::size_t>(program_.space.kept); d-- > 0;) {
    index_[d] = group % sizes[d];
    group /= sizes[d];
  }
  move_to_index();
}

void TileWorker::move_to_index() {
  const std::size_t axes = program_.space.rows.size();
  for (const TileSlot slot : program_.row_varying) {
    const TileAccess& access = program_.accesses[slot - 1u];
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < axes; ++d) offset += index_[d] * access.row_bytes[d];
    set_row_address(slot, base_[slot] + static_cast<std::uintptr_t>(offset));
  }
}

void TileWorker::next_row() {
  const auto& sizes = program_.space.rows;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (++index_[d] == sizes[d]) {
      index_[d] = 0;
      continue;
    }
    for (const TileSlot slot : program_.row_varying) {
      const auto advance = static_cast<std::uintptr_t>(program_.accesses[slot - 1u].row_advance[d]);
      set_row_address(slot, row_address_[slot] + advance);
    }
    return;
  }
}

void TileWorker::sweep(std::size_t phase, std::int64_t begin, std::int64_t end) {
  const TilePhase& current = program_.phases[phase];
  const std::int64_t width = program_.tile_columns;
  for (std::int64_t column = begin; column < end; column += width) {
    for (const TileSlot slot : current.moving) {
      const std::int64_t offset = column * program_.accesses[slot - 1u].column_bytes;
      address_[slot] = reinterpret_cast<void*>(row_address_[slot] + static_cast<std::uintptr_t>(offset));
    }
    run(current.steps, std::min(width, end - column));
  }
}

void TileWorker::run_row() {
  for (std::size_t phase = 0; phase < program_.phases.size(); ++phase) {
    begin_phase(phase);
    sweep(phase, 0, program_.space.columns);
  }
  end_row();
}

}  // namespace ridgepoint::cpu
