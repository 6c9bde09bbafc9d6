// Runs a compiled row program on all cores. The shape of the row space decides once which loop is split between
// threads: rows, groups of rows, columns, or single tiles. A run allocates nothing. Its result does not depend on
// timing, and for elementwise work not on the number of threads either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/tile/program.h"
#include "backends/cpu/tile/worker.h"
#include "runtime/device/device.h"

namespace ridgepoint::cpu {

class TileInterpreter {
 public:
  // Uses at most `threads` threads; the workspace is sized for them.
  TileInterpreter(TileProgram program, int threads);

  std::size_t workspace_bytes() const;

  // `inputs` and `outputs` are the addresses of the body's operands (element (0,...,0) of each); `workspace` has
  // workspace_bytes(), aligned to 64 bytes. An output may be in the same memory as an input.
  void run(void* const* inputs, void* const* outputs, void* workspace) const;

 private:
  // How the work is split between threads. tiles: independent tiles of all rows. columns: ranges of columns over all
  // rows of a group, which gives complete sums. rows, groups: whole rows or groups. group_rows: the rows of one group
  // after the other, with partial sums that are combined. sweeps: the columns of each sweep, for few long rows.
  enum class Split : std::uint8_t { tiles, columns, rows, groups, group_rows, sweeps };

  // The functions of an accumulation besides its step.
  struct AccumulationFunctions {
    tile::Function flush;
    tile::Function combine;
    tile::Function store;
  };

  struct Run;

  Split choose_split() const;
  int useful_workers(int threads) const;
  std::size_t accumulation_bytes() const;
  std::size_t row_buffer_bytes() const;
  std::size_t worker_bytes() const { return row_buffer_bytes() + accumulation_bytes(); }

  TileMemoryMap memory_of(const Run& run, int worker) const;
  float* partial_sums(const Run& run, int worker, const TileAccumulation& accumulation) const;
  double* column_totals(const Run& run, int worker, const TileAccumulation& accumulation) const;
  double& row_total(const Run& run, int worker, const TileAccumulation& accumulation) const;

  void run_tiles(const Run& run) const;
  void run_strided_tiles(const Run& run) const;
  void run_columns(const Run& run) const;
  void run_column_unit(TileWorker& worker, std::int64_t group, std::int64_t begin, std::int64_t end) const;
  void run_rows(const Run& run) const;
  void run_groups(const Run& run) const;
  void run_group_rows(const Run& run) const;
  void run_sweeps(const Run& run) const;

  void begin_group(const Run& run, int worker, TileWorker& state) const;
  void run_rows_of_group(const Run& run, int worker, TileWorker& state, std::int64_t rows) const;
  void flush_columns(const Run& run, int worker) const;
  void store_group(const Run& run, TileWorker& state) const;
  void store_columns(const TileAccumulation& accumulation, const double* totals, std::byte* row, std::int64_t begin,
                     std::int64_t end) const;

  TileProgram program_;
  std::vector<AccumulationFunctions> functions_;  // by accumulation
  tile::Function narrow_;
  int workers_ = 1;
  std::int64_t padded_columns_ = 0;  // of a row buffer or accumulator
  std::int64_t unit_columns_ = 0;    // Split::columns: columns of one unit
  Split split_ = Split::tiles;
};

// One kernel for elementwise ops, reductions, and composites of both; the tile interpreter runs it.

// Whether make_tile_kernel() takes the node. The answer does not depend on layouts for single ops, nor for the
// decompositions in src/ops, which reduce over the last axis.
bool fits_tile(const Graph& graph, const Node& node);

// Throws Error (unsupported) for another class of op, fp64, or indices beyond 2^24.
std::unique_ptr<Kernel> make_tile_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
