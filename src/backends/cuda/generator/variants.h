// The variants of kernels, and the source to which they are printed. Each print_ function appends kernels to the
// generation and reserves their workspace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/generator/body.h"
#include "backends/cuda/generator/source.h"
#include "core/rounding.h"
#include "lowering/row_program.h"

namespace ridgepoint::cuda {

struct KernelHeader {
  std::string variant;  // the end of the entry's name
  std::uint64_t grid = 1;
  int block = 1;
  int blocks_per_multiprocessor = 0;  // for __launch_bounds__; 0: the compiler's choice
};

// One source under construction.
class Generation {
 public:
  Generation(std::string_view name, const GeneratorTarget& target) : name_(name), target_(target) {}

  const GeneratorTarget& target() const { return target_; }
  std::int64_t multiprocessors() const { return target_.multiprocessors; }

  // Reserves a region of the workspace that passes partial results to a later launch, and returns its number.
  int reserve(std::int64_t elements, DType dtype);

  // Appends the kernel with the body `code`. `written` are the regions that it writes, as part<n>.
  void add_kernel(const KernelHeader& header, const BodyPrinter& body, const Code& code,
                  const std::vector<int>& written = {});
  GeneratedSource finish();

 private:
  struct Region {
    std::size_t offset_bytes = 0;
    DType dtype = DType::fp32;
  };

  std::string unused_entry(std::string_view variant) const;

  std::string name_;
  GeneratorTarget target_;
  GeneratedSource source_;
  std::vector<Region> regions_;
};

// Chooses the variant. Also prints the launches that combine the partial results of the first one.
void print_program(Generation& generation, const RowProgram& program);

// Without reductions: a thread computes a few vectors of elements.
void print_elementwise(Generation& generation, const RowProgram& program);
// Without reductions, for an operand that is contiguous along a row axis: its tiles pass through shared memory.
bool wants_tiles(const RowProgram& program);
void print_tiled(Generation& generation, const RowProgram& program);
// Row reductions, also with accumulating outputs: a row is computed by some lanes of a warp or by a block.
void print_rows(Generation& generation, const RowProgram& program);
// A few long rows that one sweep reduces: many blocks for each row, then a second launch.
bool wants_split_rows(const Generation& generation, const RowProgram& program);
void print_split_rows(Generation& generation, const RowProgram& program);
// Accumulated columns without row reductions: a thread computes some columns over a range of rows. `single_launch` has
// all rows of a group in one block.
void print_columns(Generation& generation, const RowProgram& program, bool single_launch = false);

inline constexpr int kWarp = 32;

bool is_accumulating(const RowOutput& output);
bool stores_rows(const RowProgram& program);

// Programs that combine the partial results of a first launch, `parts` for each result, to `program`'s outputs. Partial
// results are stored part after part (columns) or group after group (rows).
RowProgram combine_columns(const RowProgram& program, const RowOutput& output, int region, std::int64_t parts);
RowProgram combine_rows(const RowProgram& program, const RowOutput& output, int region, std::int64_t parts);
// For a program of one sweep: reduction i has `parts` partial results for each row in regions[i].
RowProgram combine_reductions(const RowProgram& program, const std::vector<int>& regions, std::int64_t parts);

// The smallest power of two that is at least `count`.
int round_up_to_power(std::int64_t count);

}  // namespace ridgepoint::cuda
