#include "backends/cuda/generated_rows.h"

#include <algorithm>

#include "backends/cuda/generated_types.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kWarp = 32;

int accumulated_bytes(const RowProgram& program) {
  int bytes = 0;
  for (const RowOutput& output : program.outputs) {
    if (output.store != RowStore::accumulate_columns) continue;
    bytes += static_cast<int>(size_bytes(partial_dtype(output.access.dtype)));
  }
  return bytes;
}

// One kernel: each team takes one row, or, when outputs accumulate, its block walks a share of the rows of one
// group and leaves one partial result a block. With `splits`, a row is shared by that many blocks instead.
class RowPrinter {
 public:
  RowPrinter(Generation& generation, const RowProgram& program, std::int64_t splits)
      : generation_(generation),
        program_(program),
        body_(program, vector_width(program, false, generation.target().scalar), code_),
        plan_(plan_sweeps(program, true)),
        splits_(splits) {
    accumulates_ = std::any_of(program.outputs.begin(), program.outputs.end(), is_accumulating);
    geometry_ = choose_row_geometry(program, body_.width(), plan_.kept_bytes, accumulated_bytes(program),
                                    generation.multiprocessors());
    if (splits_ > 1) geometry_ = split_geometry();
    if (geometry_.looped) plan_ = plan_sweeps(program, false);
  }

  void print() {
    body_.print_types();
    print_position();
    if (accumulates_) {
      body_.print_group_indices();
      body_.print_uniform_values();
      declare_accumulators();
      open_row_loop();
      print_row();
      code_.close();
      finish_accumulators();
    } else {
      body_.print_group_indices();
      body_.print_uniform_values();
      print_row();
    }
    generation_.add_kernel({.variant = variant(),
                            .grid = static_cast<std::uint64_t>(blocks()),
                            .block = geometry_.threads(),
                            .blocks_per_multiprocessor = accumulates_ ? geometry_.blocks_per_multiprocessor : 0},
                           body_, code_, regions_);
    print_combination();
  }

 private:
  const RowInstruction& at(int i) const { return program_.instructions[static_cast<std::size_t>(i)]; }
  const RowSpace& space() const { return program_.space; }

  RowGeometry split_geometry() const {
    RowGeometry geometry;
    geometry.width = body_.width();
    geometry.lanes = 256;
    geometry.vectors = 4;
    geometry.looped = true;
    return geometry;
  }

  std::string variant() const {
    if (splits_ > 1) return "split_row";
    std::string text = geometry_.in_warp() ? "warp_row" : geometry_.looped ? "looped_row" : "block_row";
    return accumulates_ ? text + "_sums" : text;
  }

  // Blocks that share a group's rows: one wave over the card.
  std::int64_t shares() const {
    const std::int64_t wave = generation_.multiprocessors() * geometry_.blocks_per_multiprocessor;
    const std::int64_t most = std::max<std::int64_t>(1, ceil_divide(space().rows_per_group(), geometry_.teams));
    return std::clamp(ceil_divide(wave, std::max<std::int64_t>(space().group_count(), 1)), std::int64_t{1}, most);
  }
  std::int64_t blocks() const {
    if (accumulates_) return space().group_count() * shares();
    return splits_ > 1 ? space().row_count() * splits_ : ceil_divide(space().row_count(), geometry_.teams);
  }
  bool some_teams_idle() const {
    return (accumulates_ ? space().rows_per_group() : space().row_count()) % geometry_.teams != 0;
  }

  // `lane` and `team`; which group, and without accumulation which row: there every row is a group of its own.
  void print_position() {
    code_.line("const int lane = threadIdx.x % {};", geometry_.lanes);
    if (geometry_.teams > 1) code_.line("const int team = threadIdx.x / {};", geometry_.lanes);
    if (accumulates_) {
      code_.line("const Count group = blockIdx.x / {}u;", shares());
      code_.line("const Count share = blockIdx.x % {}u;", shares());
    } else if (splits_ > 1) {
      code_.line("const Count group = blockIdx.x / {}u;", splits_);
      code_.line("const int split = blockIdx.x % {}u;", splits_);
    } else if (geometry_.teams == 1) {
      code_.line("const Count group = blockIdx.x;");
    } else {
      print_clamped("group", "static_cast<Count>(blockIdx.x)", space().row_count());
    }
  }

  // Teams past the last row repeat it without storing: all lanes of a warp must meet in exchanges.
  void print_clamped(std::string_view name, std::string_view block, std::int64_t count) {
    const std::string wanted = geometry_.teams == 1 ? std::string(block) : fmt::format("{} * {} + team", block, geometry_.teams);
    if (!some_teams_idle()) {
      code_.line("const Count {} = {};", name, wanted);
      return;
    }
    code_.line("const Count wanted = {};", wanted);
    code_.line("const bool live = wanted < {}u;", count);
    code_.line("const Count {} = live ? wanted : {}u;", name, count - 1);
  }

  void open_row_loop() {
    code_.line("int parity = 0;");
    const std::int64_t steps = ceil_divide(space().rows_per_group(), geometry_.teams);
    code_.open("for (Count step = share; step < {}u; step += {}u, parity ^= 1)", steps, shares());
    print_clamped("row", "step", space().rows_per_group());
    body_.print_row_indices();
  }

  void print_row() {
    if (!geometry_.looped) {
      body_.declare_kept(plan_, geometry_.vectors);
    }
    for (int phase = 0; phase < program_.phases; ++phase) {
      body_.print_row_values(phase);
      print_sweep(plan_.sweeps[static_cast<std::size_t>(phase)]);
    }
    if (splits_ > 1) return print_split_results();
    body_.print_row_values(program_.phases);
    print_row_results();
  }

  void open_vectors() {
    code_.open_unrolled("u", geometry_.vectors);
    code_.line("const int j = first + u * {};", geometry_.lanes);
    const std::int64_t vectors = body_.vectors_per_row();
    const std::int64_t held = static_cast<std::int64_t>(geometry_.vectors) * geometry_.lanes;
    if (geometry_.looped) {
      code_.line("if (j >= {}) continue;", vectors);
    } else if (vectors % held != 0) {
      code_.line("if ((u + 1) * {} > {} && j >= {}) continue;", geometry_.lanes, vectors, vectors);
    }
  }

  void print_sweep(const Sweep& sweep) {
    for (const int i : sweep.reductions) {
      code_.line("{0} a{1} = {2}::identity<{0}>();", compute_type(at(i).dtype), i, reduction_type(at(i).op));
    }
    if (geometry_.looped) {
      const int step = geometry_.lanes * geometry_.vectors;
      code_.open("for (int first = lane{}; first < {}; first += {})",
                 splits_ > 1 ? fmt::format(" + split * {}", step) : "", body_.vectors_per_row(), step * splits_);
    } else {
      code_.open("");
      code_.line("const int first = lane;");
    }
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
    open_vectors();
    body_.print_elements(plan_, sweep, geometry_.looped ? "" : "[u][k]");
    print_element_stores(sweep);
    code_.close();
    code_.close();
    body_.finish_sweep(plan_, sweep);
    print_exchange(sweep.reductions);
  }

  void print_element_stores(const Sweep& sweep) {
    const bool stores = std::any_of(sweep.outputs.begin(), sweep.outputs.end(), [&](int o) {
      return program_.outputs[static_cast<std::size_t>(o)].store == RowStore::element;
    });
    if (!stores) return;
    if (some_teams_idle()) code_.open("if (live)");
    body_.print_element_stores(sweep);
    if (some_teams_idle()) code_.close();
  }

  // Every thread of the team gets every reduction of the sweep: r<i>.
  void print_exchange(const std::vector<int>& reductions) {
    if (reductions.empty()) return;
    const int lanes = std::min(geometry_.lanes, kWarp);
    for (const int i : reductions) {
      code_.line("a{0} = across_lanes<{1}, {2}>(a{0});", i, reduction_type(at(i).op), lanes);
    }
    const std::string_view slot = accumulates_ ? "[parity]" : "";
    const int warps = geometry_.lanes / kWarp;
    if (!geometry_.in_warp()) {
      for (const int i : reductions) {
        code_.line("__shared__ {} s{}{}[{}];", compute_type(at(i).dtype), i, accumulates_ ? "[2]" : "", warps);
        code_.line("if (threadIdx.x % 32 == 0) s{0}{1}[threadIdx.x / 32] = a{0};", i, slot);
      }
      code_.line("__syncthreads();");
      const int width = round_up_to_power(warps);
      for (const int i : reductions) {
        const std::string lane = fmt::format("threadIdx.x % {}", width);
        code_.line("a{0} = {1} < {2} ? s{0}{3}[{1}] : {4}::identity<{5}>();", i, lane, warps, slot,
                   reduction_type(at(i).op), compute_type(at(i).dtype));
        code_.line("a{0} = across_lanes<{1}, {2}>(a{0});", i, reduction_type(at(i).op), width);
      }
    }
    for (const int i : reductions) code_.line("const {} r{} = a{};", compute_type(at(i).dtype), i, i);
  }

  void print_row_results() {
    bool stores = false;
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      const RowOutput& output = program_.outputs[o];
      stores = stores || output.store == RowStore::row;
      if (output.store != RowStore::accumulate_rows) continue;
      if (some_teams_idle()) code_.open("if (live)");
      code_.line("c{0} = {1}::of(c{0}, {2});", o, reduction_type(output.op), body_.reference(output.value));
      if (some_teams_idle()) code_.close();
    }
    if (!stores) return;
    code_.open("if (lane == 0{})", some_teams_idle() ? " && live" : "");
    body_.print_row_stores();
    code_.close();
  }

  void print_split_results() {
    code_.open("if (lane == 0)");
    for (const int i : plan_.sweeps.front().reductions) {
      regions_.push_back(generation_.reserve(space().row_count() * splits_, partial_dtype(at(i).dtype)));
      code_.line("part{}[group * {} + split] = Narrow<{}>::of(r{});", regions_.back(), splits_,
                 memory_type(partial_dtype(at(i).dtype)), i);
    }
    code_.close();
  }

  DType accumulated(const RowOutput& output) const { return partial_dtype(output.access.dtype); }

  void declare_accumulators() {
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      const RowOutput& output = program_.outputs[o];
      if (!is_accumulating(output)) continue;
      const std::string_view type = compute_type(output.access.dtype);
      const std::string identity = fmt::format("{}::identity<{}>()", reduction_type(output.op), type);
      if (output.store == RowStore::accumulate_rows) {
        code_.line("{} c{} = {};", type, o, identity);
        continue;
      }
      code_.line("{} c{}[{}][{}];", type, o, geometry_.vectors, geometry_.width);
      code_.open_unrolled("u", geometry_.vectors);
      code_.open_unrolled("k", geometry_.width);
      code_.line("c{}[u][k] = {};", o, identity);
      code_.close();
      code_.close();
    }
  }

  // A block's partial results to part<n>: for columns share by share, for rows group by group.
  void finish_accumulators() {
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      const RowOutput& output = program_.outputs[o];
      if (!is_accumulating(output)) continue;
      const bool columns = output.store == RowStore::accumulate_columns;
      regions_.push_back(generation_.reserve(space().group_count() * shares() * (columns ? space().columns : 1),
                                             accumulated(output)));
      combined_.push_back(static_cast<int>(o));
      columns ? finish_columns(static_cast<int>(o), output, regions_.back())
              : finish_row(static_cast<int>(o), output, regions_.back());
    }
  }

  void finish_columns(int o, const RowOutput& output, int region) {
    const std::string_view type = compute_type(output.access.dtype);
    code_.line("const int first = lane;");
    if (geometry_.teams > 1) {
      code_.line("__shared__ {} t{}[{}];", type, o, space().columns);
      // One team after the other, so that the order of additions never changes.
      code_.open("for (int turn = 0; turn < {}; ++turn)", geometry_.teams);
      code_.open("if (team == turn)");
      open_vectors();
      code_.open_unrolled("k", geometry_.width);
      const std::string column = fmt::format("j * {} + k", geometry_.width);
      code_.line("t{0}[{1}] = turn == 0 ? c{0}[u][k] : {2}::of(t{0}[{1}], c{0}[u][k]);", o, column, reduction_type(output.op));
      code_.close();
      code_.close();
      code_.close();
      code_.line("__syncthreads();");
      code_.close();
      code_.open("for (int column = threadIdx.x; column < {}; column += {})", space().columns, geometry_.threads());
      code_.line("part{}[(static_cast<Index>(share) * {} + group) * {} + column] = Narrow<{}>::of(t{}[column]);", region,
                 space().group_count(), space().columns, memory_type(accumulated(output)), o);
      code_.close();
      return;
    }
    open_vectors();
    code_.open_unrolled("k", geometry_.width);
    code_.line("part{}[(static_cast<Index>(share) * {} + group) * {} + j * {} + k] = Narrow<{}>::of(c{}[u][k]);", region,
               space().group_count(), space().columns, geometry_.width, memory_type(accumulated(output)), o);
    code_.close();
    code_.close();
  }

  void finish_row(int o, const RowOutput& output, int region) {
    const std::string_view type = compute_type(output.access.dtype);
    code_.line("__shared__ {} t{}[{}];", type, o, geometry_.teams);
    code_.line("if (lane == 0) t{0}[{1}] = c{0};", o, geometry_.teams > 1 ? "team" : "0");
    code_.line("__syncthreads();");
    code_.open("if (threadIdx.x == 0)");
    code_.open("for (int turn = 1; turn < {}; ++turn)", geometry_.teams);
    code_.line("c{0} = {1}::of(c{0}, t{0}[turn]);", o, reduction_type(output.op));
    code_.close();
    code_.line("part{}[group * {} + share] = Narrow<{}>::of(c{});", region, shares(), memory_type(accumulated(output)), o);
    code_.close();
  }

  void print_combination() {
    if (splits_ > 1) {
      print_program(generation_, combine_reductions(program_, regions_, splits_));
      return;
    }
    for (std::size_t n = 0; n < combined_.size(); ++n) {
      const RowOutput& output = program_.outputs[static_cast<std::size_t>(combined_[n])];
      if (output.store == RowStore::accumulate_columns) {
        print_columns(generation_, combine_columns(program_, output, regions_[n], shares()), true);
      } else {
        print_program(generation_, combine_rows(program_, output, regions_[n], shares()));
      }
    }
  }

  Generation& generation_;
  const RowProgram& program_;
  Code code_;
  BodyPrinter body_;
  SweepPlan plan_;
  std::int64_t splits_;
  RowGeometry geometry_;
  bool accumulates_ = false;
  std::vector<int> regions_;   // written
  std::vector<int> combined_;  // the accumulating output of each
};

// Blocks a row when there are too few rows to fill the card.
std::int64_t split_count(const Generation& generation, const RowProgram& program) {
  constexpr std::int64_t kSplitElements = 256 * 16;  // worth a block
  const std::int64_t wanted = generation.multiprocessors() * 4 / std::max<std::int64_t>(program.space.row_count(), 1);
  return std::min(wanted, program.space.columns / kSplitElements);
}

}  // namespace

bool wants_split_rows(const Generation& generation, const RowProgram& program) {
  const bool accumulates = std::any_of(program.outputs.begin(), program.outputs.end(), is_accumulating);
  return program.phases == 1 && !accumulates && split_count(generation, program) > 1;
}

void print_rows(Generation& generation, const RowProgram& program) { RowPrinter(generation, program, 1).print(); }

void print_split_rows(Generation& generation, const RowProgram& program) {
  RowPrinter(generation, program, split_count(generation, program)).print();
}

}  // namespace ridgepoint::cuda
