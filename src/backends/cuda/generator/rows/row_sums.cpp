#include "backends/cuda/generator/rows/row_sums.h"

#include <algorithm>

#include "backends/cuda/generator/types.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

DType accumulated(const RowOutput& output) { return accumulator(output.access.dtype); }

constexpr std::int64_t kFewestRows = 2;  // of a team, to limit the number of partial results

// As many blocks as the GPU can run at the same time.
std::int64_t share_count(const RowSpace& space, const RowGeometry& geometry, std::int64_t multiprocessors) {
  const std::int64_t wave = multiprocessors * geometry.blocks_per_multiprocessor;
  const std::int64_t most =
      std::max<std::int64_t>(1, ceil_divide(space.rows_per_group(), geometry.teams * kFewestRows));
  return std::clamp<std::int64_t>(ceil_divide(wave, std::max<std::int64_t>(space.group_count(), 1)), 1, most);
}

}  // namespace

RowSums::RowSums(Generation& generation, const RowProgram& program, const RowGeometry& geometry, BodyPrinter& body,
                 Code& code)
    : generation_(generation),
      program_(program),
      geometry_(geometry),
      body_(body),
      code_(code),
      shares_(share_count(program.space, geometry, generation.multiprocessors())) {
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    if (is_accumulating(program.outputs[o])) outputs_.push_back(static_cast<int>(o));
  }
}

// Prints a loop over every vector of this thread, with u, j and, for each column, k.
template <typename Body>
void RowSums::for_each_column(Body body) {
  if (geometry_.looped) {
    code_.open("for (Index j = lane; j < {}; j += {})", body_.vectors_per_row(), geometry_.lanes);
  } else {
    code_.open_unrolled("u", geometry_.vectors);
    code_.line("const Index j = lane + u * {};", geometry_.lanes);
    code_.line("if (j >= {}) continue;", body_.vectors_per_row());
  }
  code_.open_unrolled("k", geometry_.width);
  body();
  code_.close();
  code_.close();
}

std::string RowSums::accumulator() const {
  return geometry_.looped ? fmt::format("[j * {} + k]", geometry_.width) : "[u][k]";
}

std::string RowSums::partial_offset() const {
  return fmt::format("(static_cast<Index>(share) * {} + static_cast<Index>(group)) * {}", program_.space.group_count(),
                     program_.space.columns);
}

void RowSums::declare() {
  for (const int o : outputs_) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    const std::int64_t columns = is_columns(output) ? program_.space.columns : 1;
    regions_.push_back(generation_.reserve(program_.space.group_count() * shares_ * columns, accumulated(output)));
    const std::string_view type = compute_type(output.access.dtype);
    const std::string identity = fmt::format("{}::identity<{}>()", reduction_type(output.op), type);
    if (!is_columns(output)) {
      code_.line("{} c{} = {};", type, o, identity);
      continue;
    }
    if (geometry_.looped) {
      // The row is too long for registers, so sums are accumulated in the memory of the partial results. A thread has
      // the same columns in every row.
      if (output.access.dtype == DType::boolean)
        throw_error(ErrorKind::unsupported,
                    "cannot generate a kernel that accumulates {} bool columns and reduces rows", columns);
      code_.line("{}* c{} = part{} + {};", type, o, regions_.back(), partial_offset());
    } else {
      code_.line("{} c{}[{}][{}];", type, o, geometry_.vectors, geometry_.width);
    }
    for_each_column([&] { code_.line("c{}{} = {};", o, accumulator(), identity); });
  }
}

void RowSums::add_row_values(bool teams_idle) {
  for (const int o : outputs_) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    if (is_columns(output)) continue;
    code_.line("{0}c{1} = {2}::of(c{1}, {3});", teams_idle ? "if (live) " : "", o, reduction_type(output.op),
               body_.reference(output.value));
  }
}

void RowSums::finish() {
  for (std::size_t n = 0; n < outputs_.size(); ++n) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(outputs_[n])];
    if (!is_columns(output)) {
      finish_row(outputs_[n], output, regions_[n]);
    } else if (!geometry_.looped) {
      finish_columns(outputs_[n], output, regions_[n]);
    }
  }
}

void RowSums::finish_columns(int o, const RowOutput& output, int region) {
  const std::string_view memory = memory_type(accumulated(output));
  const std::string column = fmt::format("j * {} + k", geometry_.width);
  if (geometry_.teams == 1) {
    for_each_column([&] {
      code_.line("part{}[{} + {}] = Narrow<{}>::of(c{}[u][k]);", region, partial_offset(), column, memory, o);
    });
    return;
  }
  code_.line("__shared__ {} t{}[{}];", compute_type(output.access.dtype), o, program_.space.columns);
  // Teams add one after the other, so that the order of additions is fixed.
  code_.open("for (int turn = 0; turn < {}; ++turn)", geometry_.teams);
  code_.open("if (team == turn)");
  for_each_column([&] {
    code_.line("t{0}[{1}] = turn == 0 ? c{0}[u][k] : {2}::of(t{0}[{1}], c{0}[u][k]);", o, column,
               reduction_type(output.op));
  });
  code_.close();
  code_.line("__syncthreads();");
  code_.close();
  code_.open("for (int column = threadIdx.x; column < {}; column += {})", program_.space.columns, geometry_.threads());
  code_.line("part{}[{} + column] = Narrow<{}>::of(t{}[column]);", region, partial_offset(), memory, o);
  code_.close();
}

void RowSums::finish_row(int o, const RowOutput& output, int region) {
  code_.line("__shared__ {} t{}[{}];", compute_type(output.access.dtype), o, geometry_.teams);
  code_.line("if (lane == 0) t{0}[{1}] = c{0};", o, geometry_.teams > 1 ? "team" : "0");
  code_.line("__syncthreads();");
  code_.open("if (threadIdx.x == 0)");
  code_.open("for (int turn = 1; turn < {}; ++turn)", geometry_.teams);
  code_.line("c{0} = {1}::of(c{0}, t{0}[turn]);", o, reduction_type(output.op));
  code_.close();
  code_.line("part{}[static_cast<Index>(group) * {} + static_cast<Index>(share)] = Narrow<{}>::of(c{});", region,
             shares_, memory_type(accumulated(output)), o);
  code_.close();
}

void RowSums::print_combination() {
  for (std::size_t n = 0; n < outputs_.size(); ++n) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(outputs_[n])];
    if (is_columns(output)) {
      print_columns(generation_, combine_columns(program_, output, regions_[n], shares_), true);
    } else {
      print_program(generation_, combine_rows(program_, output, regions_[n], shares_));
    }
  }
}

}  // namespace ridgepoint::cuda
