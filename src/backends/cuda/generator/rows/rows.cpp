#include "backends/cuda/generator/rows/rows.h"

#include <algorithm>

#include "backends/cuda/generator/rows/row_sums.h"
#include "backends/cuda/generator/types.h"

namespace ridgepoint::cuda {
namespace {

bool accumulates(const RowProgram& program) {
  return std::any_of(program.outputs.begin(), program.outputs.end(), is_accumulating);
}

int accumulated_bytes(const RowProgram& program) {
  int bytes = 0;
  for (const RowOutput& output : program.outputs) {
    if (output.store != RowStore::accumulate_columns) continue;
    bytes += static_cast<int>(size_bytes(accumulator(output.access.dtype)));
  }
  return bytes;
}

RowGeometry split_geometry(int width) {
  RowGeometry geometry;
  geometry.width = width;
  geometry.lanes = 256;
  geometry.vectors = 4;
  geometry.looped = true;
  return geometry;
}

// Prints one kernel. Each team computes one row; or, if outputs accumulate, each block computes its share of the rows
// of one group; or, with `splits`, that many blocks divide a row.
class RowPrinter {
 public:
  RowPrinter(Generation& generation, const RowProgram& program, std::int64_t splits)
      : generation_(generation),
        program_(program),
        body_(program, vector_width(program, false, generation.target().scalar), code_),
        plan_(plan_sweeps(program, true)),
        splits_(splits),
        geometry_(splits > 1 ? split_geometry(body_.width())
                             : choose_row_geometry(program, body_.width(), plan_.kept_bytes, accumulated_bytes(program),
                                                   generation.multiprocessors())),
        accumulates_(accumulates(program)),
        sums_(generation, program, geometry_, body_, code_) {
    if (geometry_.looped) plan_ = plan_sweeps(program, false);
  }

  void print() {
    body_.print_types();
    print_position();
    body_.print_group_indices();
    body_.print_uniform_values();
    if (accumulates_) {
      sums_.declare();
      open_row_loop();
      print_row();
      code_.close();
      sums_.finish();
    } else {
      print_row();
    }
    generation_.add_kernel({.variant = variant(),
                            .grid = static_cast<std::uint64_t>(blocks()),
                            .block = geometry_.threads(),
                            .blocks_per_multiprocessor = accumulates_ ? geometry_.blocks_per_multiprocessor : 0},
                           body_, code_, splits_ > 1 ? split_regions_ : sums_.regions());
    if (splits_ > 1) print_program(generation_, combine_reductions(program_, split_regions_, splits_));
    sums_.print_combination();
  }

 private:
  const RowInstruction& at(int i) const { return program_.instructions[static_cast<std::size_t>(i)]; }
  const RowSpace& space() const { return program_.space; }

  std::string variant() const {
    if (splits_ > 1) return "split_row";
    const std::string text = geometry_.in_warp() ? "warp_row" : geometry_.looped ? "looped_row" : "block_row";
    return accumulates_ ? text + "_sums" : text;
  }

  std::int64_t blocks() const {
    if (accumulates_) return space().group_count() * sums_.shares();
    return splits_ > 1 ? space().row_count() * splits_ : ceil_divide(space().row_count(), geometry_.teams);
  }
  bool teams_idle() const {
    return (accumulates_ ? space().rows_per_group() : space().row_count()) % geometry_.teams != 0;
  }

  // Prints `lane`, `team` and `group`. Without accumulation every row is a group of its own.
  void print_position() {
    code_.line("const int lane = threadIdx.x % {};", geometry_.lanes);
    if (geometry_.teams > 1) code_.line("const int team = threadIdx.x / {};", geometry_.lanes);
    if (accumulates_) {
      code_.line("const Count group = blockIdx.x / {}u;", sums_.shares());
      code_.line("const Count share = blockIdx.x % {}u;", sums_.shares());
    } else if (splits_ > 1) {
      code_.line("const Count group = blockIdx.x / {}u;", splits_);
      code_.line("const Index split = blockIdx.x % {}u;", splits_);
    } else {
      print_team_row("group", "static_cast<Count>(blockIdx.x)", space().row_count());
    }
  }

  // Teams beyond the last row repeat it without storing, because all lanes of a warp must take part in shuffles.
  void print_team_row(std::string_view name, std::string_view block, std::int64_t count) {
    const std::string wanted =
        geometry_.teams == 1 ? std::string(block) : fmt::format("{} * {} + team", block, geometry_.teams);
    if (!teams_idle()) {
      code_.line("const Count {} = {};", name, wanted);
      return;
    }
    code_.line("const Count wanted = {};", wanted);
    code_.line("const bool live = wanted < {}u;", count);
    code_.line("const Count {} = live ? wanted : {}u;", name, count - 1);
  }

  // Two alternating slots in shared memory: a warp may begin the next row while another one still reads this row's
  // slot.
  void open_row_loop() {
    if (!geometry_.in_warp()) code_.line("int parity = 1;");
    const std::int64_t steps = ceil_divide(space().rows_per_group(), geometry_.teams);
    code_.open("for (Count step = share; step < {}u; step += {}u)", steps, sums_.shares());
    if (!geometry_.in_warp()) code_.line("parity ^= 1;");
    print_team_row("row", "step", space().rows_per_group());
    body_.print_row_indices();
  }

  void print_row() {
    if (!geometry_.looped) body_.declare_kept(plan_, geometry_.vectors);
    for (int phase = 0; phase < program_.phases; ++phase) {
      body_.print_row_values(phase);
      print_sweep(plan_.sweeps[static_cast<std::size_t>(phase)]);
    }
    if (splits_ > 1) return print_split_results();
    body_.print_row_values(program_.phases);
    sums_.add_row_values(teams_idle());
    if (!stores_rows(program_)) return;
    code_.open("if (lane == 0{})", teams_idle() ? " && live" : "");
    body_.print_row_stores();
    code_.close();
  }

  void open_sweep() {
    if (geometry_.looped) {
      const std::int64_t step = std::int64_t{geometry_.lanes} * geometry_.vectors;
      code_.open("for (Index first = lane{}; first < {}; first += {})",
                 splits_ > 1 ? fmt::format(" + split * {}", step) : "", body_.vectors_per_row(), step * splits_);
    } else {
      code_.open("");
      code_.line("const Index first = lane;");
    }
  }

  void open_vectors() {
    code_.open_unrolled("u", geometry_.vectors);
    code_.line("const Index j = first + u * {};", geometry_.lanes);
    const std::int64_t vectors = body_.vectors_per_row();
    const std::int64_t held = std::int64_t{geometry_.vectors} * geometry_.lanes;
    if (geometry_.looped) {
      code_.line("if (j >= {}) continue;", vectors);
    } else if (vectors != held) {
      code_.line("if ((u + 1) * {0} > {1} && j >= {1}) continue;", geometry_.lanes, vectors);
    }
  }

  void print_sweep(const Sweep& sweep) {
    for (const int i : sweep.reductions)
      code_.line("{0} a{1} = {2}::identity<{0}>();", compute_type(at(i).dtype), i, body_.reduction(i));
    open_sweep();
    std::vector<int> fresh;
    for (const int i : sweep.loads) {
      if (!plan_.kept[static_cast<std::size_t>(i)]) fresh.push_back(i);
    }
    body_.declare_packets(fresh, geometry_.vectors);
    if (!sweep.loads.empty()) {
      open_vectors();
      body_.print_loads(sweep.loads);
      code_.close();
    }
    if (&sweep == &plan_.sweeps.front()) print_prefetch(sweep.loads);
    open_vectors();
    body_.print_elements(plan_, sweep, teams_idle() ? "if (live) " : "", sums_.accumulator());
    print_element_stores(sweep);
    code_.close();
    code_.close();
    body_.finish_sweep(plan_, sweep);
    print_exchange(sweep.reductions);
  }

  // Of the row whose block follows this one on the multiprocessor, where few blocks fill it: no other one loads while
  // they compute.
  void print_prefetch(const std::vector<int>& loads) {
    const std::int64_t distance = generation_.multiprocessors() * geometry_.few_blocks;
    if (distance == 0 || accumulates_ || space().row_count() <= distance) return;
    code_.open("if (group + {} < {}u)", distance, space().row_count());
    code_.line("const Count before = group;");
    code_.open("");
    code_.line("const Count group = before + {};", distance);
    body_.print_group_indices();
    open_vectors();
    body_.print_prefetches(loads);
    for (int level = 0; level < 3; ++level) code_.close();
  }

  void print_element_stores(const Sweep& sweep) {
    const bool stores = std::any_of(sweep.outputs.begin(), sweep.outputs.end(), [&](int o) {
      return program_.outputs[static_cast<std::size_t>(o)].store == RowStore::element;
    });
    if (!stores) return;
    if (teams_idle()) code_.open("if (live)");
    body_.print_element_stores(sweep);
    if (teams_idle()) code_.close();
  }

  // Gives every thread of the team every reduction of the sweep, as r<i>.
  void print_exchange(const std::vector<int>& reductions) {
    for (const int i : reductions) print_across_lanes(i, std::min(geometry_.lanes, kWarp));
    if (!geometry_.in_warp() && !reductions.empty()) print_across_warps(reductions);
    for (const int i : reductions) code_.line("const {0} r{1} = a{1};", compute_type(at(i).dtype), i);
  }

  void print_across_lanes(int i, int lanes) {
    code_.line("a{0} = across_lanes<{1}, {2}>(a{0});", i, body_.reduction(i), lanes);
  }

  void print_across_warps(const std::vector<int>& reductions) {
    const int warps = geometry_.lanes / kWarp;
    const std::string_view slot = accumulates_ ? "[parity]" : "";
    for (const int i : reductions) {
      code_.line("__shared__ {} s{}{}[{}];", compute_type(at(i).dtype), i, accumulates_ ? "[2]" : "", warps);
      code_.line("if (threadIdx.x % 32 == 0) s{0}{1}[threadIdx.x / 32] = a{0};", i, slot);
    }
    code_.line("__syncthreads();");
    const int width = round_up_to_power(warps);
    for (const int i : reductions) {
      const std::string warp = fmt::format("threadIdx.x % {}", width);
      code_.line("a{0} = {1} < {2} ? s{0}{3}[{1}] : {4}::identity<{5}>();", i, warp, warps, slot, body_.reduction(i),
                 compute_type(at(i).dtype));
      print_across_lanes(i, body_.reduction(i) == "LargestMagnitude" ? kWarp : width);
    }
  }

  void print_split_results() {
    code_.open("if (lane == 0)");
    for (const int i : plan_.sweeps.front().reductions) {
      const DType dtype = accumulator(at(i).dtype);
      split_regions_.push_back(generation_.reserve(space().row_count() * splits_, dtype));
      code_.line("part{}[static_cast<Index>(group) * {} + split] = Narrow<{}>::of(r{});", split_regions_.back(),
                 splits_, memory_type(dtype), i);
    }
    code_.close();
  }

  Generation& generation_;
  const RowProgram& program_;
  Code code_;
  BodyPrinter body_;
  SweepPlan plan_;
  std::int64_t splits_;
  RowGeometry geometry_;
  bool accumulates_;
  RowSums sums_;
  std::vector<int> split_regions_;
};

// The number of blocks for each row if there are too few rows to fill the GPU.
std::int64_t split_count(const Generation& generation, const RowProgram& program) {
  constexpr std::int64_t kElementsOfBlock = 256 * 16;
  const std::int64_t wanted = generation.multiprocessors() * 4 / std::max<std::int64_t>(program.space.row_count(), 1);
  return std::min(wanted, program.space.columns / kElementsOfBlock);
}

}  // namespace

bool wants_split_rows(const Generation& generation, const RowProgram& program) {
  const bool rows_only = std::all_of(program.outputs.begin(), program.outputs.end(),
                                     [](const RowOutput& output) { return output.store == RowStore::row; });
  return program.phases == 1 && rows_only && split_count(generation, program) > 1;
}

void print_rows(Generation& generation, const RowProgram& program) { RowPrinter(generation, program, 1).print(); }

void print_split_rows(Generation& generation, const RowProgram& program) {
  RowPrinter(generation, program, split_count(generation, program)).print();
}

}  // namespace ridgepoint::cuda
