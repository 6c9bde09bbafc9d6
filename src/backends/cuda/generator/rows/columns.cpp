#include <algorithm>

#include "backends/cuda/generator/types.h"
#include "backends/cuda/generator/variants.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kThreadsOfSingleLaunch = 1024;
constexpr int kRowsInFlight = 4;
constexpr std::int64_t kBlocksPerMultiprocessor = 4;

// How a thread block covers columns and rows: `across` threads side by side, each with its vector of columns, times
// `down` threads, each with every down-th row of the block's rows.
struct ColumnGeometry {
  int across = kWarp;
  int down = 1;
  std::int64_t tiles = 1;   // blocks side by side
  std::int64_t shares = 1;  // blocks among which the rows of a group are divided
  bool flat = false;        // one thread for each vector of each group, with all rows of the group
};

ColumnGeometry choose_geometry(const RowSpace& space, std::int64_t vectors, std::int64_t multiprocessors, bool single) {
  ColumnGeometry geometry;
  const std::int64_t rows = space.rows_per_group();
  const std::int64_t groups = std::max<std::int64_t>(space.group_count(), 1);
  if (groups * vectors >= multiprocessors * 2 * kThreads || rows <= kRowsInFlight) {
    geometry.flat = true;
    geometry.across = kThreads;
    return geometry;
  }
  const int threads = single ? kThreadsOfSingleLaunch : kThreads;
  geometry.across = std::min(kWarp, round_up_to_power(vectors));
  geometry.tiles = ceil_divide(vectors, geometry.across);
  geometry.down = std::min(threads / geometry.across, round_up_to_power(ceil_divide(rows, kRowsInFlight)));
  if (!single) {
    const std::int64_t wanted = ceil_divide(multiprocessors * kBlocksPerMultiprocessor, groups * geometry.tiles);
    geometry.shares = std::clamp<std::int64_t>(wanted, 1, ceil_divide(rows, geometry.down * kRowsInFlight));
  }
  return geometry;
}

class ColumnPrinter {
 public:
  ColumnPrinter(Generation& generation, const RowProgram& program, bool single)
      : generation_(generation),
        program_(program),
        // Single elements spread the few partial results of a first launch over more threads.
        body_(program, vector_width(program, false, single || generation.target().scalar), code_),
        plan_(plan_sweeps(program, false)),
        geometry_(choose_geometry(program.space, body_.vectors_per_row(), generation.multiprocessors(), single)) {}

  void print() {
    body_.print_types();
    print_position();
    body_.print_group_indices();
    body_.print_uniform_values();
    for_each_sum([&](int o, const RowOutput& output) {
      code_.line("{} c{}[{}];", compute_type(output.access.dtype), o, body_.width());
      code_.open_unrolled("k", body_.width());
      code_.line("c{}[k] = {}::identity<{}>();", o, reduction_type(output.op), compute_type(output.access.dtype));
      code_.close();
    });
    print_rows_loop();
    if (geometry_.down > 1) print_exchange();
    print_results();
    generation_.add_kernel({.variant = geometry_.flat         ? "columns"
                                       : geometry_.shares > 1 ? "column_shares"
                                                              : "column_tiles",
                            .grid = static_cast<std::uint64_t>(blocks()),
                            .block = geometry_.across * geometry_.down},
                           body_, code_, regions_);
    for (std::size_t n = 0; n < regions_.size(); ++n)
      print_columns(generation_, combine_columns(program_, *combined_[n], regions_[n], geometry_.shares), true);
  }

 private:
  const RowSpace& space() const { return program_.space; }
  std::int64_t vectors() const { return body_.vectors_per_row(); }
  std::int64_t rows_per_share() const { return ceil_divide(space().rows_per_group(), geometry_.shares); }
  std::int64_t blocks() const {
    if (geometry_.flat) return ceil_divide(space().group_count() * vectors(), geometry_.across);
    return space().group_count() * geometry_.shares * geometry_.tiles;
  }
  bool partial_tile() const { return !geometry_.flat && vectors() % geometry_.across != 0; }

  template <typename Function>
  void for_each_sum(Function function) {
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      if (program_.outputs[o].store == RowStore::accumulate_columns) function(static_cast<int>(o), program_.outputs[o]);
    }
  }

  // Prints `group`, `j`, and the first row of the thread. Threads beyond the last column repeat it without storing,
  // because all threads of a block must reach the barriers.
  void print_position() {
    if (geometry_.flat) {
      code_.line("const Count item = static_cast<Count>(blockIdx.x) * {} + threadIdx.x;", geometry_.across);
      code_.line("if (item >= {}u) return;", space().group_count() * vectors());
      code_.line("const Count group = item / {}u;", vectors());
      code_.line("const Count j = item % {}u;", vectors());
      code_.line("const Count first_row = 0, end_row = {}u;", space().rows_per_group());
      return;
    }
    code_.line("const int across = threadIdx.x % {};", geometry_.across);
    code_.line("const int down = threadIdx.x / {};", geometry_.across);
    code_.line("const Count tile = blockIdx.x % {}u;", geometry_.tiles);
    code_.line("const Count share = blockIdx.x / {}u % {}u;", geometry_.tiles, geometry_.shares);
    code_.line("const Count group = blockIdx.x / {}u;", geometry_.tiles * geometry_.shares);
    code_.line("const Count wanted = tile * {} + across;", geometry_.across);
    code_.line("const bool live = wanted < {}u;", vectors());
    code_.line("const Count j = live ? wanted : {}u;", vectors() - 1);
    code_.line("const Count share_end = (share + 1) * {}u;", rows_per_share());
    code_.line("const Count end_row = share_end < {0}u ? share_end : {0}u;", space().rows_per_group());
    code_.line("const Count first_row = share * {}u + down;", rows_per_share());
  }

  void open_rows() {
    code_.open_unrolled("u", kRowsInFlight);
    code_.line("const Count row = next + u * {};", geometry_.down);
    code_.line("if (row >= end_row) continue;");
    body_.print_row_indices();
  }

  void print_rows_loop() {
    const Sweep& sweep = plan_.sweeps.front();
    code_.open("for (Count next = first_row; next < end_row; next += {})", kRowsInFlight * geometry_.down);
    body_.declare_packets(sweep.loads, kRowsInFlight);
    body_.load_rows_ahead(kRowsInFlight);
    open_rows();
    body_.print_loads(sweep.loads);
    code_.close();
    open_rows();
    body_.print_row_values(0);
    body_.print_elements(plan_, sweep, "", "[k]");
    if (partial_tile()) code_.open("if (live)");
    body_.print_element_stores(sweep);
    if (partial_tile()) code_.close();
    print_row_stores();
    code_.close();
    code_.close();
  }

  void print_row_stores() {
    if (!stores_rows(program_)) return;
    code_.open("if (j == 0{})", partial_tile() ? " && live" : "");
    body_.print_row_stores();
    code_.close();
  }

  // Adds the partial results of the `down` threads of a column in a fixed order.
  void print_exchange() {
    for_each_sum([&](int o, const RowOutput& output) {
      code_.line("__shared__ {} t{}[{}][{}];", compute_type(output.access.dtype), o, geometry_.down,
                 geometry_.across * body_.width());
      code_.open_unrolled("k", body_.width());
      code_.line("t{0}[down][across * {1} + k] = c{0}[k];", o, body_.width());
      code_.close();
    });
    code_.line("__syncthreads();");
    code_.line("if (down != 0) return;");
    for_each_sum([&](int o, const RowOutput& output) {
      code_.open("for (int turn = 1; turn < {}; ++turn)", geometry_.down);
      code_.open_unrolled("k", body_.width());
      code_.line("c{0}[k] = {1}::of(c{0}[k], t{0}[turn][across * {2} + k]);", o, reduction_type(output.op),
                 body_.width());
      code_.close();
      code_.close();
    });
  }

  void print_results() {
    if (!geometry_.flat) code_.line("if (!live) return;");
    code_.line("const Count row = 0;");
    for_each_sum([&](int o, const RowOutput& output) {
      std::string to;
      DType dtype = output.access.dtype;
      if (geometry_.shares > 1) {
        dtype = accumulator(dtype);
        regions_.push_back(generation_.reserve(space().group_count() * geometry_.shares * space().columns, dtype));
        combined_.push_back(&output);
        to = fmt::format(
            "part{}[(static_cast<Index>(share) * {} + static_cast<Index>(group)) * {} + static_cast<Index>(j) * {} + "
            "k]",
            regions_.back(), space().group_count(), space().columns, body_.width());
      } else {
        to = fmt::format("out{}[{} + (static_cast<Index>(j) * {} + k) * {}]", output.output,
                         body_.offset(output.access), body_.width(), output.access.column_stride);
      }
      code_.open_unrolled("k", body_.width());
      code_.line("{} = Narrow<{}>::of(c{}[k]);", to, memory_type(dtype), o);
      code_.close();
    });
  }

  Generation& generation_;
  const RowProgram& program_;
  Code code_;
  BodyPrinter body_;
  SweepPlan plan_;
  ColumnGeometry geometry_;
  std::vector<int> regions_;
  std::vector<const RowOutput*> combined_;
};

}  // namespace

void print_columns(Generation& generation, const RowProgram& program, bool single_launch) {
  ColumnPrinter(generation, program, single_launch).print();
}

}  // namespace ridgepoint::cuda
