// Accumulating outputs of a kernel that also reduces rows: each of the blocks that divide a group's rows writes one
// partial result, and later launches combine these in a fixed order. In the generated code c<n> is the partial result
// of output n.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/generator/rows/rows.h"
#include "backends/cuda/generator/variants.h"

namespace ridgepoint::cuda {

class RowSums {
 public:
  RowSums(Generation& generation, const RowProgram& program, const RowGeometry& geometry, BodyPrinter& body,
          Code& code);

  std::int64_t shares() const { return shares_; }  // blocks for each group
  const std::vector<int>& regions() const { return regions_; }
  // The subscript after c<n> for column k of vector j.
  std::string accumulator() const;

  // Throws Error (unsupported) for bool columns that are too long for registers.
  void declare();
  // Printed once for each row: outputs that accumulate a row value.
  void add_row_values(bool teams_idle);
  void finish();
  // Prints the launches that combine partial results to outputs.
  void print_combination();

 private:
  template <typename Body>
  void for_each_column(Body body);
  bool is_columns(const RowOutput& output) const { return output.store == RowStore::accumulate_columns; }
  std::string partial_offset() const;
  void finish_columns(int o, const RowOutput& output, int region);
  void finish_row(int o, const RowOutput& output, int region);

  Generation& generation_;
  const RowProgram& program_;
  const RowGeometry& geometry_;
  BodyPrinter& body_;
  Code& code_;
  std::int64_t shares_;
  std::vector<int> outputs_;  // those that accumulate
  std::vector<int> regions_;  // of each
};

}  // namespace ridgepoint::cuda
