#include "backends/cpu/tile/kernel.h"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cpu/tile/interpreter.h"
#include "core/threads/parallel.h"
#include "lowering/row_program.h"
#include "ops/rule.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cpu {
namespace {

class TileKernel : public Kernel {
 public:
  TileKernel(std::string name, const std::vector<RowProgram>& programs) : name_(std::move(name)) {
    for (const RowProgram& program : programs) parts_.emplace_back(compile_tiles(program), thread_count());
  }

  std::string_view name() const override { return name_; }

  // The parts run one after the other and share the workspace.
  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const TileInterpreter& part : parts_) bytes = std::max(bytes, part.workspace_bytes());
    return bytes;
  }

  void launch(const LaunchArguments& arguments) override {
    for (const TileInterpreter& part : parts_) part.run(arguments.inputs, arguments.outputs, arguments.workspace);
  }

 private:
  std::string name_;
  std::vector<TileInterpreter> parts_;
};

bool may_fit(Op op) {
  const OpClass kind = op_class(op);
  return kind == OpClass::elementwise || kind == OpClass::reduction || kind == OpClass::composite ||
         kind == OpClass::fused;
}

std::vector<TensorLayout> dense_layouts(const Graph& graph, std::span<const Value> values) {
  std::vector<TensorLayout> layouts;
  for (const Value value : values) layouts.push_back(dense_layout(graph.type(value)));
  return layouts;
}

}  // namespace

bool fits_tile(const Graph& graph, const Node& node) {
  if (!may_fit(node.op)) return false;
  const Graph body = body_of(graph, node);
  const auto programs = lower_to_rows(body, dense_layouts(graph, node.inputs), dense_layouts(graph, node.outputs));
  if (!programs || (node.op == Op::fused && !lowers_to_one_program(body))) return false;
  try {
    for (const RowProgram& program : *programs) compile_tiles(program);
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::unique_ptr<Kernel> make_tile_kernel(const KernelSpec& spec) {
  const std::string op(operation_name(spec.node));
  std::optional<std::vector<RowProgram>> programs;
  if (may_fit(spec.node.op)) programs = lower_to_rows(body_of(spec.graph, spec.node), spec.inputs, spec.outputs);
  if (!programs) {
    throw Error("the CPU's tile interpreter cannot run '" + op +
                    "': it is not made of elementwise ops and reductions over rows; decompose it first",
                ErrorKind::unsupported);
  }
  return std::make_unique<TileKernel>("tile_" + op, *programs);
}

}  // namespace ridgepoint::cpu
