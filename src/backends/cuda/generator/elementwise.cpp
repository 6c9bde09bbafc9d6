#include <algorithm>
#include <cstdlib>
#include <optional>

#include "backends/cuda/generator/types.h"
#include "backends/cuda/generator/variants.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostVectors = 4;
constexpr std::int64_t kBytesInFlight = 64;  // per thread; hides memory latency on a fully occupied multiprocessor

// The number of vectors for each thread: as many loads in flight as leave several blocks for every multiprocessor.
int vectors_per_thread(const RowProgram& program, int width, std::int64_t vectors, std::int64_t multiprocessors) {
  std::int64_t bytes = 0;
  for (const RowInstruction& load : program.instructions) {
    if (load.kind == RowKind::load && load.level == RowLevel::column)
      bytes += width * static_cast<std::int64_t>(size_bytes(load.access.dtype));
  }
  int count = kMostVectors;
  while (count > 1 && (count * bytes > kBytesInFlight || vectors < count * kThreads * 4 * multiprocessors)) count /= 2;
  return count;
}

constexpr int kTile = 32;          // columns and rows of a tile
constexpr int kTileThreads = 256;  // 8 rows of a tile at a time
constexpr int kSteps = kTile * kTile / kTileThreads;
constexpr std::int64_t kFewestElements = 4096;  // a tile is not faster for fewer
constexpr std::int64_t kShortestAxis = 4;

bool is_scattered(const RowInstruction& load) {
  return load.kind == RowKind::load && load.level == RowLevel::column && std::abs(load.access.column_stride) != 1;
}

// The row axis along which the first scattered operand is contiguous.
std::optional<int> neighbour_axis(const RowProgram& program) {
  for (const RowInstruction& load : program.instructions) {
    if (!is_scattered(load)) continue;
    for (std::size_t d = 0; d < program.space.rows.size(); ++d) {
      if (std::abs(load.access.row_strides[d]) == 1 && program.space.rows[d] >= kShortestAxis)
        return static_cast<int>(d);
    }
  }
  return std::nullopt;
}

class TiledPrinter {
 public:
  TiledPrinter(Generation& generation, const RowProgram& program)
      : generation_(generation),
        program_(program),
        axis_(*neighbour_axis(program)),
        body_(program, 1, code_),
        plan_(plan_sweeps(program, false)) {
    body_.index_by_axis();
    for (const int i : plan_.sweeps.front().loads) {
      const RowInstruction& load = program_.instructions[static_cast<std::size_t>(i)];
      const bool staged = is_scattered(load) && std::abs(load.access.row_strides[static_cast<std::size_t>(axis_)]) == 1;
      (staged ? staged_ : direct_).push_back(i);
    }
  }

  void print() {
    const std::int64_t rows = program_.space.rows[static_cast<std::size_t>(axis_)];
    const std::int64_t column_tiles = ceil_divide(program_.space.columns, kTile);
    const std::int64_t row_tiles = ceil_divide(rows, kTile);
    print_position(column_tiles, row_tiles);
    print_staging(rows);
    code_.line("__syncthreads();");
    print_results(rows);
    const std::int64_t others = program_.space.row_count() / rows;
    generation_.add_kernel({.variant = "tiled",
                            .grid = static_cast<std::uint64_t>(others * column_tiles * row_tiles),
                            .block = kTileThreads},
                           body_, code_);
  }

 private:
  // Prints the position of this block's tile, and the indices of all row axes except the tile's own.
  void print_position(std::int64_t column_tiles, std::int64_t row_tiles) {
    body_.print_types();
    body_.print_uniform_values();
    code_.line("const Count tile_row = blockIdx.x / {}u % {}u;", column_tiles, row_tiles);
    code_.line("const Index first_column = static_cast<Index>(blockIdx.x % {}u) * {};", column_tiles, kTile);
    code_.line("const Index first_row = static_cast<Index>(tile_row) * {};", kTile);
    code_.line("Count others = blockIdx.x / {}u;", column_tiles * row_tiles);
    for (int d = static_cast<int>(program_.space.rows.size()) - 1; d >= 0; --d) {
      if (d == axis_) continue;
      const std::int64_t size = program_.space.rows[static_cast<std::size_t>(d)];
      code_.line("const Index i{} = static_cast<Index>(others % {}u);", d, size);
      code_.line("others /= {}u;", size);
    }
    code_.line("const int fast = threadIdx.x % {};", kTile);
    code_.line("const int slow = threadIdx.x / {};", kTile);
    for (const int i : staged_) {
      // One column of padding avoids bank conflicts.
      code_.line("__shared__ {} t{}[{}][{}];",
                 memory_type(program_.instructions[static_cast<std::size_t>(i)].access.dtype), i, kTile, kTile + 1);
    }
  }

  void open_step(std::string_view row, std::string_view column, std::int64_t rows) {
    code_.open_unrolled("step", kSteps);
    code_.line("const Index i{} = first_row + {};", axis_, row);
    code_.line("const Index j = first_column + {};", column);
    code_.line("if (i{} >= {} || j >= {}) continue;", axis_, rows, program_.space.columns);
  }

  void print_staging(std::int64_t rows) {
    open_step("fast", fmt::format("slow + step * {}", kTileThreads / kTile), rows);
    for (const int i : staged_) {
      const RowInstruction& load = program_.instructions[static_cast<std::size_t>(i)];
      code_.line("t{}[slow + step * {}][fast] = {}[{} + j * {}];", i, kTileThreads / kTile, input_name(load.input),
                 body_.offset(load.access), load.access.column_stride);
    }
    code_.close();
  }

  void print_results(std::int64_t rows) {
    const Sweep& sweep = plan_.sweeps.front();
    open_step(fmt::format("slow + step * {}", kTileThreads / kTile), "fast", rows);
    code_.line("const int u = 0;");
    body_.declare_packets(sweep.loads, 1);
    body_.print_loads(direct_);
    for (const int i : staged_)
      code_.line("p{}[u].items[0] = t{}[fast][slow + step * {}];", i, i, kTileThreads / kTile);
    body_.print_row_values(0);
    body_.print_elements(plan_, sweep, "", "");
    body_.print_element_stores(sweep);
    code_.close();
  }

  Generation& generation_;
  const RowProgram& program_;
  int axis_;
  Code code_;
  BodyPrinter body_;
  SweepPlan plan_;
  std::vector<int> staged_;
  std::vector<int> direct_;
};

}  // namespace

void print_elementwise(Generation& generation, const RowProgram& program) {
  const int width = vector_width(program, true, generation.target().scalar);
  Code code;
  BodyPrinter body(program, width, code);
  const std::int64_t per_row = body.vectors_per_row();
  const std::int64_t vectors = program.space.row_count() * per_row;
  const int count = vectors_per_thread(program, width, vectors, generation.multiprocessors());
  const SweepPlan plan = plan_sweeps(program, false);
  const Sweep& sweep = plan.sweeps.front();
  const bool exact = vectors % (count * kThreads) == 0;

  const auto open_vector = [&] {
    code.open_unrolled("u", count);
    code.line("const Count vector = first + u * {};", kThreads);
    if (!exact) code.line("if (vector >= {}u) continue;", vectors);
    if (program.space.rows.empty()) {
      code.line("const Count j = vector;");
    } else {
      code.line("const Count group = vector / {}u;", per_row);
      code.line("const Count j = vector % {}u;", per_row);
    }
    body.print_group_indices();
  };
  body.print_types();
  code.line("const Count first = static_cast<Count>(blockIdx.x) * {} + threadIdx.x;", count * kThreads);
  body.print_uniform_values();
  body.declare_packets(sweep.loads, count);
  body.load_rows_ahead(count);
  // All loads come before the first store: results may share memory with operands, so no load can move up.
  open_vector();
  body.print_loads(sweep.loads);
  code.close();
  open_vector();
  body.print_row_values(0);
  body.print_elements(plan, sweep, "", "");
  body.print_element_stores(sweep);
  if (stores_rows(program)) {
    code.open("if (j == 0)");
    body.print_row_stores();
    code.close();
  }
  code.close();
  generation.add_kernel({.variant = width > 1 ? "vector" : "element",
                         .grid = static_cast<std::uint64_t>(ceil_divide(vectors, count * kThreads)),
                         .block = kThreads},
                        body, code);
}

bool wants_tiles(const RowProgram& program) {
  const bool rows_stored = std::any_of(program.outputs.begin(), program.outputs.end(), [](const RowOutput& output) {
    return output.store != RowStore::element || output.access.column_stride != 1;
  });
  return !rows_stored && program.space.columns >= kShortestAxis && neighbour_axis(program).has_value() &&
         program.space.row_count() >= kFewestElements / program.space.columns;
}

void print_tiled(Generation& generation, const RowProgram& program) { TiledPrinter(generation, program).print(); }

}  // namespace ridgepoint::cuda
