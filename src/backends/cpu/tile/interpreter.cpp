#include "backends/cpu/tile/interpreter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/rounding.h"
#include "core/threads/parallel.h"
#include "lowering/row_program.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cpu {
namespace {

// Less work than this is not worth the time to wake a thread.
constexpr double kWorkPerThreadNs = 4000.0;
// Columns are summed in fp32 over this many rows, then added to doubles.
constexpr std::int64_t kRowsPerFlush = 128;
constexpr std::int64_t kNarrowestUnit = 64;
constexpr std::int64_t kCacheLineFloats = 16;

class TileKernel : public Kernel {
 public:
  TileKernel(std::string name, const std::vector<RowProgram>& programs) : name_(std::move(name)) {
    for (const RowProgram& program : programs) parts_.emplace_back(compile_tiles(program), thread_count());
  }

  std::string_view name() const override { return name_; }

  // The parts run one after the other and share the workspace.
  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const TileInterpreter& part : parts_) bytes = std::max(bytes, part.workspace_bytes());
    return bytes;
  }

  void launch(const LaunchArguments& arguments) override {
    for (const TileInterpreter& part : parts_) part.run(arguments.inputs, arguments.outputs, arguments.workspace);
  }

 private:
  std::string name_;
  std::vector<TileInterpreter> parts_;
};

bool may_fit(Op op) {
  const OpClass kind = op_class(op);
  return kind == OpClass::elementwise || kind == OpClass::reduction || kind == OpClass::composite ||
         kind == OpClass::fused;
}

std::vector<TensorLayout> dense_layouts(const Graph& graph, std::span<const Value> values) {
  std::vector<TensorLayout> layouts;
  for (const Value value : values) layouts.push_back(dense_layout(graph.type(value)));
  return layouts;
}

}  // namespace

// The arguments of one call of run().
struct TileInterpreter::Run {
  void* const* inputs;
  void* const* outputs;
  std::byte* workspace;
};

TileInterpreter::TileInterpreter(TileProgram program, int threads)
    : program_(std::move(program)), narrow_(tile::narrow_function()), workers_(useful_workers(threads)) {
  padded_columns_ = round_up(program_.space.columns, kCacheLineFloats);
  split_ = choose_split();
  const std::int64_t share = ceil_divide(program_.space.columns, workers_);
  unit_columns_ = std::clamp(round_up(share, kCacheLineFloats), kNarrowestUnit, program_.tile_columns);
  for (const TileAccumulation& accumulation : program_.accumulations) {
    functions_.push_back({tile::flush_function(accumulation.op), tile::combine_function(accumulation.op),
                          tile::store_function(accumulation.dtype, accumulation.stride)});
  }
}

int TileInterpreter::useful_workers(int threads) const {
  const double elements = static_cast<double>(program_.space.row_count()) * static_cast<double>(program_.space.columns);
  const double work_ns = elements * program_.element_cost_ns;
  return static_cast<int>(std::clamp(work_ns / kWorkPerThreadNs, 1.0, static_cast<double>(std::max(threads, 1))));
}

TileInterpreter::Split TileInterpreter::choose_split() const {
  const std::int64_t groups = program_.space.group_count();
  const std::int64_t columns = program_.space.columns;
  if (!program_.reduces_rows && program_.accumulations.empty()) return Split::tiles;
  if (program_.accumulations.empty()) {
    // In sweeps every worker picks again, maybe after another one has stored over the operand.
    const bool long_rows = columns >= workers_ * program_.tile_columns && !program_.picks;
    return program_.space.row_count() < 2 * workers_ && long_rows ? Split::sweeps : Split::rows;
  }
  const bool only_columns = !program_.reduces_rows && program_.row_accumulations == 0;
  if (only_columns && (workers_ == 1 || groups * (columns / kNarrowestUnit) >= 2 * workers_)) return Split::columns;
  if (workers_ == 1 || groups >= 2 * workers_ || program_.space.rows_per_group() == 0) return Split::groups;
  return Split::group_rows;
}

std::size_t TileInterpreter::row_buffer_bytes() const {
  return static_cast<std::size_t>(program_.row_buffers) * static_cast<std::size_t>(padded_columns_) *
         program_.value_bytes;
}

std::size_t TileInterpreter::accumulation_bytes() const {
  if (split_ != Split::groups && split_ != Split::group_rows) return 0;
  const std::size_t columns = static_cast<std::size_t>(program_.column_accumulations) *
                              static_cast<std::size_t>(padded_columns_) * (sizeof(float) + sizeof(double));
  const std::size_t rows = static_cast<std::size_t>(program_.row_accumulations) * sizeof(double);
  return columns + round_up(rows, 64);
}

std::size_t TileInterpreter::workspace_bytes() const {
  const auto workers = static_cast<std::size_t>(workers_);
  if (split_ == Split::sweeps) return row_buffer_bytes() + workers * kMaxTileReductions * sizeof(double);
  return workers * worker_bytes();
}

// A worker's memory: row buffers, fp32 partial sums of columns, double sums of columns, double sums of row values.
TileMemoryMap TileInterpreter::memory_of(const Run& run, int worker) const {
  const bool shared = split_ == Split::sweeps;  // all workers fill the buffer of the current row
  std::byte* start = run.workspace + (shared ? 0 : static_cast<std::size_t>(worker) * worker_bytes());
  return {run.inputs, run.outputs, start, start + row_buffer_bytes(), padded_columns_};
}

float* TileInterpreter::partial_sums(const Run& run, int worker, const TileAccumulation& accumulation) const {
  return reinterpret_cast<float*>(memory_of(run, worker).accumulators) + accumulation.number * padded_columns_;
}

double* TileInterpreter::column_totals(const Run& run, int worker, const TileAccumulation& accumulation) const {
  std::byte* partial = memory_of(run, worker).accumulators;
  std::byte* totals =
      partial + program_.column_accumulations * padded_columns_ * static_cast<std::int64_t>(sizeof(float));
  return reinterpret_cast<double*>(totals) + accumulation.number * padded_columns_;
}

double& TileInterpreter::row_total(const Run& run, int worker, const TileAccumulation& accumulation) const {
  std::byte* partial = memory_of(run, worker).accumulators;
  const std::int64_t columns = program_.column_accumulations * padded_columns_;
  std::byte* totals = partial + columns * static_cast<std::int64_t>(sizeof(float) + sizeof(double));
  return reinterpret_cast<double*>(totals)[accumulation.number];
}

void TileInterpreter::run(void* const* inputs, void* const* outputs, void* workspace) const {
  const Run run{inputs, outputs, static_cast<std::byte*>(workspace)};
  switch (split_) {
    case Split::tiles: return program_.strided ? run_strided_tiles(run) : run_tiles(run);
    case Split::columns: return run_columns(run);
    case Split::rows: return run_rows(run);
    case Split::groups: return run_groups(run);
    case Split::group_rows: return run_group_rows(run);
    case Split::sweeps: return run_sweeps(run);
  }
}

// Tiles in memory order: all tiles of a row, then the next row.
void TileInterpreter::run_tiles(const Run& run) const {
  const std::int64_t columns = program_.space.columns;
  const std::int64_t width = program_.tile_columns;
  const std::int64_t tiles = ceil_divide(columns, width);
  parallel_for_workers(program_.space.row_count() * tiles, workers_, [&](int w, std::int64_t next, std::int64_t end) {
    if (next == end) return;
    TileWorker worker(program_, memory_of(run, w));
    worker.seek_row(next / tiles);
    while (next < end) {
      const std::int64_t first = next % tiles;
      const std::int64_t count = std::min(tiles - first, end - next);
      worker.begin_phase(0);
      worker.sweep(0, first * width, std::min(columns, (first + count) * width));
      if (first == 0) worker.end_row();
      worker.next_row();
      next += count;
    }
  });
}

// One range of columns over all rows, then the next: the next row uses the cache lines of strided memory again.
void TileInterpreter::run_strided_tiles(const Run& run) const {
  const std::int64_t columns = program_.space.columns;
  const std::int64_t width = program_.tile_columns;
  const std::int64_t rows = program_.space.row_count();
  parallel_for_workers(rows * ceil_divide(columns, width), workers_, [&](int w, std::int64_t next, std::int64_t end) {
    TileWorker worker(program_, memory_of(run, w));
    while (next < end) {
      const std::int64_t first = next / rows * width;
      const std::int64_t row = next % rows;
      const std::int64_t count = std::min(rows - row, end - next);
      worker.seek_row(row);
      for (std::int64_t i = 0; i < count; ++i) {
        worker.begin_phase(0);
        worker.sweep(0, first, std::min(columns, first + width));
        if (first == 0) worker.end_row();
        worker.next_row();
      }
      next += count;
    }
  });
}

void TileInterpreter::run_columns(const Run& run) const {
  const std::int64_t units = ceil_divide(program_.space.columns, unit_columns_);
  parallel_for_workers(program_.space.group_count() * units, workers_, [&](int w, std::int64_t next, std::int64_t end) {
    if (next == end) return;
    TileWorker worker(program_, memory_of(run, w));
    for (; next < end; ++next) {
      const std::int64_t begin = next % units * unit_columns_;
      run_column_unit(worker, next / units, begin, std::min(begin + unit_columns_, program_.space.columns));
    }
  });
}

// Sums one range of columns over one group, in this thread's scratch memory behind the registers.
void TileInterpreter::run_column_unit(TileWorker& worker, std::int64_t group, std::int64_t begin,
                                      std::int64_t end) const {
  const std::int64_t width = program_.tile_columns;
  const std::size_t register_bytes = program_.registers * static_cast<std::size_t>(width) * program_.value_bytes;
  auto* partial = reinterpret_cast<float*>(tile_scratch() + register_bytes);
  auto* totals = reinterpret_cast<double*>(partial + program_.column_accumulations * width);
  const std::int64_t count = end - begin;
  const auto flush = [&] {
    for (std::size_t k = 0; k < functions_.size(); ++k) {
      const std::int64_t at = program_.accumulations[k].number * width;
      functions_[k].flush(totals + at, partial + at, nullptr, nullptr, count, 1);
    }
  };
  worker.seek_group(group);
  for (const TileAccumulation& accumulation : program_.accumulations) {
    const std::int64_t at = accumulation.number * width;
    std::fill_n(partial + at, count, static_cast<float>(tile::identity(accumulation.op)));
    std::fill_n(totals + at, count, tile::identity(accumulation.op));
    const auto skipped = static_cast<std::uintptr_t>(begin) * sizeof(float);
    worker.set_accumulator(accumulation.number, reinterpret_cast<std::uintptr_t>(partial + at) - skipped);
  }
  const std::int64_t rows = program_.space.rows_per_group();
  for (std::int64_t row = 1; row <= rows; ++row) {
    worker.begin_phase(0);
    worker.sweep(0, begin, end);
    if (begin == 0) worker.end_row();
    if (row % kRowsPerFlush == 0) flush();
    worker.next_row();
  }
  flush();
  worker.seek_group(group);
  for (const TileAccumulation& accumulation : program_.accumulations) {
    store_columns(accumulation, totals + accumulation.number * width, worker.row_address(accumulation.output), begin,
                  end);
  }
}

void TileInterpreter::run_rows(const Run& run) const {
  parallel_for_workers(program_.space.row_count(), workers_, [&](int w, std::int64_t row, std::int64_t end) {
    if (row == end) return;
    TileWorker worker(program_, memory_of(run, w));
    worker.seek_row(row);
    for (; row < end; ++row) {
      worker.run_row();
      worker.next_row();
    }
  });
}

void TileInterpreter::begin_group(const Run& run, int worker, TileWorker& state) const {
  for (const TileAccumulation& accumulation : program_.accumulations) {
    const double start = tile::identity(accumulation.op);
    if (accumulation.columns) {
      std::fill_n(partial_sums(run, worker, accumulation), padded_columns_, static_cast<float>(start));
      std::fill_n(column_totals(run, worker, accumulation), padded_columns_, start);
    } else {
      state.total(accumulation.slot) = start;
    }
  }
}

void TileInterpreter::flush_columns(const Run& run, int worker) const {
  for (std::size_t k = 0; k < functions_.size(); ++k) {
    const TileAccumulation& accumulation = program_.accumulations[k];
    if (!accumulation.columns) continue;
    functions_[k].flush(column_totals(run, worker, accumulation), partial_sums(run, worker, accumulation), nullptr,
                        nullptr, program_.space.columns, 1);
  }
}

// Sums these rows into the worker's memory.
void TileInterpreter::run_rows_of_group(const Run& run, int worker, TileWorker& state, std::int64_t rows) const {
  begin_group(run, worker, state);
  for (std::int64_t row = 1; row <= rows; ++row) {
    state.run_row();
    if (row % kRowsPerFlush == 0) flush_columns(run, worker);
    state.next_row();
  }
  flush_columns(run, worker);
  for (const TileAccumulation& accumulation : program_.accumulations) {
    if (!accumulation.columns) row_total(run, worker, accumulation) = state.total(accumulation.slot);
  }
}

void TileInterpreter::store_columns(const TileAccumulation& accumulation, const double* totals, std::byte* row,
                                    std::int64_t begin, std::int64_t end) const {
  constexpr std::int64_t kChunk = 256;
  const tile::Function store =
      functions_[static_cast<std::size_t>(&accumulation - program_.accumulations.data())].store;
  const std::int64_t step_bytes = accumulation.stride * static_cast<std::int64_t>(size_bytes(accumulation.dtype));
  float narrowed[kChunk];
  for (std::int64_t column = begin; column < end; column += kChunk) {
    const std::int64_t count = std::min(kChunk, end - column);
    narrow_(narrowed, totals + (column - begin), nullptr, nullptr, count, 1);
    store(row + column * step_bytes, narrowed, nullptr, nullptr, count, accumulation.stride);
  }
}

// Stores the sums in worker 0's memory; `state` is at the group's first row.
void TileInterpreter::store_group(const Run& run, TileWorker& state) const {
  for (const TileAccumulation& accumulation : program_.accumulations) {
    std::byte* row = state.row_address(accumulation.output);
    if (accumulation.columns) {
      store_columns(accumulation, column_totals(run, 0, accumulation), row, 0, program_.space.columns);
    } else {
      store_columns(accumulation, &row_total(run, 0, accumulation), row, 0, 1);
    }
  }
}

void TileInterpreter::run_groups(const Run& run) const {
  const std::int64_t rows = program_.space.rows_per_group();
  parallel_for_workers(program_.space.group_count(), workers_, [&](int w, std::int64_t group, std::int64_t end) {
    if (group == end) return;
    // The memory of this worker takes the place of worker 0's, so that worker 0 below is this one.
    const Run own{run.inputs, run.outputs, run.workspace + static_cast<std::size_t>(w) * worker_bytes()};
    TileWorker worker(program_, memory_of(own, 0));
    for (; group < end; ++group) {
      worker.seek_group(group);
      run_rows_of_group(own, 0, worker, rows);
      worker.seek_group(group);
      store_group(own, worker);
    }
  });
}

void TileInterpreter::run_group_rows(const Run& run) const {
  const std::int64_t rows = program_.space.rows_per_group();
  TileWorker state(program_, memory_of(run, 0));
  for (std::int64_t group = 0; group < program_.space.group_count(); ++group) {
    parallel_for_workers(rows, workers_, [&](int w, std::int64_t begin, std::int64_t end) {
      TileWorker worker(program_, memory_of(run, w));
      worker.seek_row(group * rows + begin);
      run_rows_of_group(run, w, worker, end - begin);
    });
    for (int w = 1; w < workers_; ++w) {
      for (std::size_t k = 0; k < functions_.size(); ++k) {
        const TileAccumulation& accumulation = program_.accumulations[k];
        const bool columns = accumulation.columns;
        double* total = columns ? column_totals(run, 0, accumulation) : &row_total(run, 0, accumulation);
        const double* part = columns ? column_totals(run, w, accumulation) : &row_total(run, w, accumulation);
        functions_[k].combine(total, part, nullptr, nullptr, columns ? program_.space.columns : 1, 1);
      }
    }
    state.seek_group(group);
    store_group(run, state);
  }
}

// Each sweep is a parallel loop of its own; `state` has the totals of earlier sweeps.
void TileInterpreter::run_sweeps(const Run& run) const {
  const std::int64_t columns = program_.space.columns;
  auto* partials = reinterpret_cast<double*>(run.workspace + row_buffer_bytes());
  TileWorker state(program_, memory_of(run, 0));
  for (std::int64_t row = 0; row < program_.space.row_count(); ++row) {
    state.seek_row(row);
    for (std::size_t phase = 0; phase < program_.phases.size(); ++phase) {
      const auto& reductions = program_.phases[phase].reductions;
      state.begin_phase(phase);
      parallel_for_workers(columns, workers_, [&](int w, std::int64_t begin, std::int64_t end) {
        TileWorker worker(program_, memory_of(run, w));
        worker.seek_row(row);
        for (std::size_t earlier = 0; earlier <= phase; ++earlier) {
          worker.begin_phase(earlier);
          if (earlier == phase) break;
          for (const TileReduction& reduction : program_.phases[earlier].reductions)
            worker.total(reduction.slot) = state.total(reduction.slot);
        }
        worker.sweep(phase, begin, end);
        double* partial = partials + static_cast<std::size_t>(w) * kMaxTileReductions;
        for (const TileReduction& reduction : reductions) *partial++ = worker.total(reduction.slot);
      });
      for (int w = 0; w < workers_; ++w) {
        const double* partial = partials + static_cast<std::size_t>(w) * kMaxTileReductions;
        for (const TileReduction& reduction : reductions)
          tile::combine_function(reduction.op)(&state.total(reduction.slot), partial++, nullptr, nullptr, 1, 1);
      }
    }
    state.end_row();
  }
}

bool fits_tile(const Graph& graph, const Node& node) {
  if (!may_fit(node.op)) return false;
  const Graph body = body_of(graph, node);
  const auto programs = lower_to_rows(body, dense_layouts(graph, node.inputs), dense_layouts(graph, node.outputs));
  if (!programs || (node.op == Op::fused && !lowers_to_one_program(body))) return false;
  try {
    for (const RowProgram& program : *programs) compile_tiles(program);
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::unique_ptr<Kernel> make_tile_kernel(const KernelSpec& spec) {
  const std::string op(operation_name(spec.node));
  std::optional<std::vector<RowProgram>> programs;
  if (may_fit(spec.node.op)) programs = lower_to_rows(body_of(spec.graph, spec.node), spec.inputs, spec.outputs);
  if (!programs) {
    throw Error("the CPU's tile interpreter cannot run '" + op +
                    "': it is not made of elementwise ops and reductions over rows; decompose it first",
                ErrorKind::unsupported);
  }
  return std::make_unique<TileKernel>("tile_" + op, *programs);
}

}  // namespace ridgepoint::cpu
