// Prints the code that all variants share: parameters, indices, loads, formulas, stores.
//
// Names in the generated code: in<n>, out<n> and part<n> are pointers; `group` is the number of the kept rows, and
// `row` the number of a row within the group; i<d> is the index along row axis d; p<n>[u] is the packet of load n,
// x<n>[u][k] a kept value, v<n> a column value, r<n> a row or uniform value, h<n>[u] a row value that is loaded ahead,
// a<n> the partial result of reduction n, c<n> that of accumulating output n, q<n> the packet of output n, and n<n>[k]
// its elements before they become codes. A thread has vectors (u) of `width` elements (k); j is the number of a vector
// within the row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/generator/source.h"
#include "backends/cuda/generator/sweeps.h"
#include "lowering/row_program.h"

namespace ridgepoint::cuda {

// For a load from the workspace, RowInstruction::input is this plus the number of the region.
inline constexpr int kWorkspaceInput = 1 << 16;
std::string input_name(int input);  // in<n> or part<n>

// The number of elements in one access: 16 bytes of the narrowest operand, fewer if the row length or an operand's
// strides are not multiples of it. If `tail_allowed`, a program with one row may end in an incomplete vector.
int vector_width(const RowProgram& program, bool tail_allowed, bool scalar);

class BodyPrinter {
 public:
  BodyPrinter(const RowProgram& program, int width, Code& code);

  int width() const { return width_; }
  std::int64_t vectors_per_row() const { return (program_.space.columns + width_ - 1) / width_; }

  // The pointers that the program uses, in the order of the parameter list; offsets into the workspace are 0 here.
  std::vector<GeneratedParameter> parameters() const;
  std::string parameter_list() const;

  // Types `Index` and `Count`: 32 bits if all offsets fit, otherwise 64.
  void print_types();
  // Prints i<d> of row axes [first, end), computed from the number `index`, if an access needs them.
  void print_indices(int first, int end, std::string_view index);
  void print_group_indices() { print_indices(0, program_.space.kept, "group"); }
  void print_row_indices() { print_indices(program_.space.kept, row_axes(), "row"); }
  // Alternatively the caller prints i<d> of every axis itself.
  void index_by_axis() { by_axis_ = true; }
  // Prints values that do not vary with the column: the uniform ones, or the row values of one phase.
  void print_uniform_values();
  void print_row_values(int phase);

  // Row values of phase 0 are needed for `vectors` rows at the same time: their loads are issued together with those of
  // packets.
  void load_rows_ahead(int vectors);
  void declare_packets(const std::vector<int>& loads, int vectors);
  void declare_kept(const SweepPlan& plan, int vectors);
  // Loads p<n>[u] and h<n>[u] for vector j of a row.
  void print_loads(const std::vector<int>& loads);
  // Prefetches what print_loads() would load, where it varies with the row.
  void print_prefetches(const std::vector<int>& loads);

  // Prints the formulas of a sweep for vector j, which update a<n>, c<n> and q<n>. Column k of output n is accumulated
  // in c<n> followed by `accumulator`, in a statement that begins with `condition`.
  void print_elements(const SweepPlan& plan, const Sweep& sweep, std::string_view condition,
                      std::string_view accumulator);
  void print_element_stores(const Sweep& sweep);
  // After this call, kept values of the sweep are read and not computed again.
  void finish_sweep(const SweepPlan& plan, const Sweep& sweep);
  // Stores the outputs that have one element for each row.
  void print_row_stores();

  std::string offset(const RowAccess& access) const;  // along the row axes
  std::string reference(int instruction) const;       // the expression for a value in later code
  std::string_view reduction(int instruction) const;  // the type that carries it out

 private:
  const RowInstruction& at(int i) const { return program_.instructions[static_cast<std::size_t>(i)]; }
  int row_axes() const { return static_cast<int>(program_.space.rows.size()); }
  std::int64_t axis_size(int axis) const { return program_.space.rows[static_cast<std::size_t>(axis)]; }
  std::int64_t tail() const { return program_.space.columns % width_; }
  bool is_column(int i) const { return at(i).level == RowLevel::column; }
  bool is_kept_elsewhere(int i) const { return in_register_[static_cast<std::size_t>(i)]; }

  bool merges(const RowAccess& access, int first, int end) const;
  std::string offset_along(const RowAccess& access, int first, int end, std::string_view index) const;
  std::string address(std::string_view base, const RowAccess& access) const;
  void print_value(int i);
  void print_load(int i);
  int narrowed(const RowOutput& output) const;
  bool narrows_together(const RowOutput& output) const;
  bool is_magnitude(const RowInstruction& instruction) const;
  bool is_never_negative(int i) const;
  bool is_sigmoid_of_short(const RowInstruction& instruction) const;
  std::vector<RowAccess> accesses() const;
  void add_parameter(std::vector<GeneratedParameter>& list, const GeneratedParameter& parameter) const;
  std::size_t alignment_bytes(const RowAccess& access) const;

  const RowProgram& program_;
  int width_;
  Code& code_;
  bool wide_ = false;
  bool rows_ahead_ = false;
  bool by_axis_ = false;
  std::vector<bool> in_register_;  // kept values that an earlier sweep computed
};

}  // namespace ridgepoint::cuda
