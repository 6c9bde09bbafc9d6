// CUDA C++ for a row program: the text of one translation unit (no includes; NVRTC compiles it as it is) and how to
// launch what it defines. One generator serves elementwise work, row reductions, column reductions and their
// mixtures (docs/decisions/0007 says which variant is chosen when). Results are the same bits on every run.
//
// Arithmetic: fp32 for fp32, bf16 and fp16 values, double for fp64; sums are kept in the same type, several partial
// sums a result. Division and square root round as IEEE asks, other functions are those of CUDA's accurate library.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lowering/row_program.h"

namespace ridgepoint::cuda {

struct GeneratorTarget {
  int architecture = 90;      // compute capability, 10 * major + minor
  int multiprocessors = 132;  // decides how finely work is cut
  bool scalar = false;        // element by element: for operands that are not aligned for vector accesses
};

// One kernel parameter, a pointer. `alignment_bytes` is what the kernel's widest access to it needs.
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

// The launches run in order. None when there is nothing to compute.
struct GeneratedSource {
  std::string text;
  std::vector<GeneratedLaunch> launches;
  std::size_t workspace_bytes = 0;
};

// `name` begins the entries' names; `add` becomes `add_vector`. Throws Error (unsupported) when the program's space
// is too large to launch.
GeneratedSource generate_source(const RowProgram& program, std::string_view name, const GeneratorTarget& target);

}  // namespace ridgepoint::cuda
