#include <algorithm>

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
    if (load.kind == RowKind::load && load.level == RowLevel::column) {
      bytes += width * static_cast<std::int64_t>(size_bytes(load.access.dtype));
    }
  }
  int count = kMostVectors;
  while (count > 1 && (count * bytes > kBytesInFlight || vectors < count * kThreads * 4 * multiprocessors)) count /= 2;
  return count;
}

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

}  // namespace ridgepoint::cuda
