// The variants of kernels and the source they are printed into. Each print_ function appends one kernel or more to
// the generation and reserves the workspace they need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/generator/body.h"
#include "backends/cuda/generator/code.h"
#include "backends/cuda/generator/source.h"
#include "lowering/row_program.h"

namespace ridgepoint::cuda {

struct KernelHeader {
  std::string variant;  // ends the entry's name
  std::uint64_t grid = 1;
  int block = 1;
  int blocks_per_multiprocessor = 0;  // that registers must leave room for; 0: the compiler's choice
};

// One source under construction.
class Generation {
 public:
  Generation(std::string_view name, const GeneratorTarget& target) : name_(name), target_(target) {}

  const GeneratorTarget& target() const { return target_; }
  std::int64_t multiprocessors() const { return target_.multiprocessors; }

  // A part of the workspace that passes partial results of this type to a later launch.
  int reserve(std::int64_t elements, DType dtype);

  // Appends the kernel whose body `code` holds. `written` are regions it writes, as part<n>.
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

// Chooses the variant. Also prints the programs that finish what a first launch began.
void print_program(Generation& generation, const RowProgram& program);

// No reductions: a thread computes a few vectors of elements.
void print_elementwise(Generation& generation, const RowProgram& program);
// No reductions, but an operand whose neighbours lie along a row axis: tiles of it pass through shared memory.
bool wants_tiles(const RowProgram& program);
void print_tiled(Generation& generation, const RowProgram& program);
// Reductions of rows, and accumulating outputs beside them: a row belongs to some lanes of a warp or to a block.
void print_rows(Generation& generation, const RowProgram& program);
// A few long rows reduced in one sweep: many blocks a row, then a second launch.
bool wants_split_rows(const Generation& generation, const RowProgram& program);
void print_split_rows(Generation& generation, const RowProgram& program);
// Accumulated columns without reductions of rows: a thread owns some columns of a range of rows. `single_launch`
// keeps all rows of a group in one block.
void print_columns(Generation& generation, const RowProgram& program, bool single_launch = false);

bool is_accumulating(const RowOutput& output);
bool has_reductions(const RowProgram& program);

// Programs that reduce partial results of a first launch, `parts` of them for each result, to what `program`'s
// outputs hold. Output `index` accumulates; its partial results lie part by part (columns) or group by group (rows).
RowProgram combine_columns(const RowProgram& program, const RowOutput& output, int region, std::int64_t parts);
RowProgram combine_rows(const RowProgram& program, const RowOutput& output, int region, std::int64_t parts);
// Every reduction of a program of one sweep has `parts` partial results a row, in regions[i] for the i-th.
RowProgram combine_reductions(const RowProgram& program, const std::vector<int>& regions, std::int64_t parts);

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
// The smallest power of two that is not less.
int round_up_to_power(std::int64_t count);

}  // namespace ridgepoint::cuda
