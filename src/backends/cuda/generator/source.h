// Generates CUDA C++ for a row program: the text of one translation unit (without includes, for NVRTC) and the launches
// of its kernels. One generator serves elementwise ops, row reductions, column reductions and their combinations
// (docs/decisions/0007 explains the choice of a variant). Results are bit for bit reproducible.
//
// Arithmetic is fp32 for fp32, bf16 and fp16 values and double for fp64; sums have the same type, with several partial
// sums for each result. Division and square root round as IEEE 754 requires; other functions are CUDA's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lowering/row_program.h"

namespace ridgepoint::cuda {

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

}  // namespace ridgepoint::cuda
