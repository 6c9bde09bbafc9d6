#include "backends/cuda/generator/source.h"

#include <algorithm>

#include "backends/cuda/generator/prelude.h"
#include "backends/cuda/generator/types.h"
#include "backends/cuda/generator/variants.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kRegionAlignmentBytes = 256;
constexpr std::uint64_t kMaxGrid = (std::uint64_t{1} << 31) - 1;

// Whether the program's results have no elements.
bool is_empty(const RowProgram& program) {
  const RowSpace& space = program.space;
  return std::all_of(program.outputs.begin(), program.outputs.end(), [&](const RowOutput& output) {
    std::int64_t count = space.group_count();
    if (!is_accumulating(output)) count *= space.rows_per_group();
    if (output.store == RowStore::element || output.store == RowStore::accumulate_columns) count *= space.columns;
    return count == 0;
  });
}

}  // namespace

bool is_accumulating(const RowOutput& output) {
  return output.store == RowStore::accumulate_columns || output.store == RowStore::accumulate_rows;
}

bool stores_rows(const RowProgram& program) {
  return std::ranges::any_of(program.outputs, [](const RowOutput& output) { return output.store == RowStore::row; });
}

int round_up_to_power(std::int64_t count) {
  int power = 1;
  while (power < count) power *= 2;
  return power;
}

int Generation::reserve(std::int64_t elements, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_bytes(dtype);
  regions_.push_back({source_.workspace_bytes, dtype});
  source_.workspace_bytes += round_up(bytes, kRegionAlignmentBytes);
  return static_cast<int>(regions_.size()) - 1;
}

// A number makes the name unique: a node with several sums may need the same variant for each.
std::string Generation::unused_entry(std::string_view variant) const {
  const std::string first = fmt::format("{}_{}", name_, variant);
  const auto is_used = [&](const std::string& entry) {
    return std::ranges::any_of(source_.launches, [&](const GeneratedLaunch& l) { return l.entry == entry; });
  };
  std::string entry = first;
  for (int number = 2; is_used(entry); ++number) entry = fmt::format("{}_{}", first, number);
  return entry;
}

void Generation::add_kernel(const KernelHeader& header, const BodyPrinter& body, const Code& code,
                            const std::vector<int>& written) {
  if (header.grid > kMaxGrid) {
    throw Error(fmt::format("a kernel for '{}' would need {} thread blocks, but a launch has at most {}", name_,
                            header.grid, kMaxGrid),
                ErrorKind::unsupported);
  }
  GeneratedLaunch launch;
  launch.entry = unused_entry(header.variant);
  launch.grid = static_cast<unsigned>(header.grid);
  launch.block = static_cast<unsigned>(header.block);
  launch.parameters = body.parameters();
  std::string parameters = body.parameter_list();
  for (GeneratedParameter& parameter : launch.parameters) {
    if (parameter.kind != GeneratedParameter::Kind::workspace) continue;
    parameter.offset_bytes = regions_[static_cast<std::size_t>(parameter.index)].offset_bytes;
  }
  for (const int number : written) {
    const Region& region = regions_[static_cast<std::size_t>(number)];
    launch.parameters.push_back({GeneratedParameter::Kind::workspace, number, region.offset_bytes, 1});
    parameters += fmt::format("{}{}* part{}", parameters.empty() ? "" : ", ", memory_type(region.dtype), number);
  }
  std::string bounds = fmt::format("{}", header.block);
  if (header.blocks_per_multiprocessor > 0) bounds += fmt::format(", {}", header.blocks_per_multiprocessor);
  source_.text += fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n  wait_for_previous_kernel();\n{}}}\n", bounds,
      launch.entry, parameters, code.text());
  source_.launches.push_back(std::move(launch));
}

GeneratedSource Generation::finish() {
  if (!source_.launches.empty()) {
    const auto names = [&](DType dtype) { return source_.text.find(memory_type(dtype)) != std::string::npos; };
    const bool has_float8 = names(DType::e4m3) || names(DType::e5m2);
    source_.text = fmt::format("{}{}{}{}{}", generated_intrinsics(), generated_prelude(),
                               names(DType::dynamic8) ? generated_codes() : "", has_float8 ? generated_float8() : "",
                               source_.text);
  }
  return std::move(source_);
}

void print_program(Generation& generation, const RowProgram& program) {
  const bool reductions = std::ranges::any_of(
      program.instructions, [](const RowInstruction& instruction) { return instruction.kind == RowKind::reduce; });
  const bool accumulates = std::any_of(program.outputs.begin(), program.outputs.end(), is_accumulating);
  if (!reductions && !accumulates) {
    return wants_tiles(program) ? print_tiled(generation, program) : print_elementwise(generation, program);
  }
  const bool accumulates_rows =
      std::any_of(program.outputs.begin(), program.outputs.end(),
                  [](const RowOutput& output) { return output.store == RowStore::accumulate_rows; });
  if (!reductions && !accumulates_rows) return print_columns(generation, program);
  if (wants_split_rows(generation, program)) return print_split_rows(generation, program);
  print_rows(generation, program);
}

GeneratedSource generate_source(const RowProgram& program, std::string_view name, const GeneratorTarget& target) {
  Generation generation(name, target);
  if (!is_empty(program)) print_program(generation, program);
  return generation.finish();
}

}  // namespace ridgepoint::cuda
