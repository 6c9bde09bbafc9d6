// Generates CUDA C++ for a row program: the text of one translation unit (without includes, for NVRTC) and the launches
// of its kernels. One generator serves elementwise ops, row reductions, column reductions and their combinations
// (docs/decisions/0007 explains the choice of a variant). Results are bit for bit reproducible.
//
// Arithmetic is fp32 for fp32, bf16 and fp16 values and double for fp64; sums have the same type, with several partial
// sums for each result. Division and square root round as IEEE 754 requires; other functions are CUDA's.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lowering/row_program.h"

namespace ridgepoint::cuda {

// The device functions that begin every generated source.

// Functions that exist on a GPU only: conversions of 16-bit floats, maxima that propagate NaN, bit casts.
std::string_view generated_intrinsics();
// All other functions: memory types, packets, conversions, formulas, shuffles between lanes. Plain C++ that uses the
// intrinsics above and __shfl_xor_sync.
std::string_view generated_prelude();
// The memory types of dynamic 8-bit codes, and of floats of 8 bits, and their conversions; after the two above, where a
// kernel needs them.
std::string generated_codes();
std::string generated_float8();

struct GeneratorTarget {
  int architecture = 90;      // compute capability, 10 * major + minor
  int multiprocessors = 132;  // determines how many blocks share the work
  bool scalar = false;        // single elements, for operands that are not aligned for vector accesses
};

// One kernel parameter, a pointer. `alignment_bytes` is the alignment that the widest access needs.
struct GeneratedParameter {
  enum class Kind { input, output, workspace };
  Kind kind = Kind::input;
  int index = 0;                 // which operand or result of the node
  std::size_t offset_bytes = 0;  // into the workspace
  std::size_t alignment_bytes = 1;
};

struct GeneratedLaunch {
  std::string entry;
  unsigned grid = 1;   // blocks
  unsigned block = 1;  // threads
  std::vector<GeneratedParameter> parameters;
};

// The launches run in order. There are none if there is nothing to compute.
struct GeneratedSource {
  std::string text;
  std::vector<GeneratedLaunch> launches;
  std::size_t workspace_bytes = 0;
};

// Names of entries begin with `name`: `add` becomes `add_vector`. Throws Error (unsupported) if the program is too
// large for a launch.
GeneratedSource generate_source(const RowProgram& program, std::string_view name, const GeneratorTarget& target);

// The text of a generated source, built line by line with indentation.
class Code {
 public:
  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_.append(2 * depth_, ' ');
    text_ += fmt::format(format, std::forward<Arguments>(arguments)...);  // format_to would compile all of {fmt} here
    text_ += '\n';
  }
  // A line that opens a block; adds " {".
  template <typename... Arguments>
  void open(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    line("{} {{", fmt::format(format, std::forward<Arguments>(arguments)...));
    ++depth_;
  }
  // A loop that the compiler unrolls completely.
  void open_unrolled(std::string_view variable, int count) {
    line("#pragma unroll");
    open("for (int {0} = 0; {0} < {1}; ++{0})", variable, count);
  }
  void close() {
    --depth_;
    line("}}");
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::size_t depth_ = 0;
};

}  // namespace ridgepoint::cuda
