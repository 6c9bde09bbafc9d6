#include "backends/cuda/generator/node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>

#include "lowering/row_program.h"
#include "ops/rule.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

std::string describe(const AttributeValue& value) {
  return std::visit(
      [](const auto& item) {
        if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::vector<std::int64_t>>) {
          return fmt::format("{}", fmt::join(item, ","));
        } else {
          return fmt::format("{}", item);
        }
      },
      value);
}

std::string describe(const TensorLayout& layout) {
  std::string text(name(layout.dtype));
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    text += fmt::format(" {}:{}", layout.shape[axis], layout.strides[static_cast<std::size_t>(axis)]);
  }
  if (!layout.immediate) return text;
  return text + (is_integer(layout.dtype) ? fmt::format(" = {}", layout.immediate_integer)
                                          : fmt::format(" = {}", *layout.immediate));
}

GeneratedNode generate(const KernelSpec& spec, GeneratorTarget target) {
  const std::optional<std::vector<RowProgram>> programs =
      lower_to_rows(body_of(spec.graph, spec.node), spec.inputs, spec.outputs);
  if (!programs) {
    throw Error(fmt::format("no kernel can be generated for op '{}' in '{}'", name(spec.node.op),
                            spec.graph.scope_name(spec.node)),
                ErrorKind::unsupported);
  }
  GeneratedNode node;
  for (const RowProgram& program : *programs) {
    for (const bool scalar : {false, true}) {
      target.scalar = scalar;
      std::vector<GeneratedSource>& sources = scalar ? node.scalar : node.sources;
      sources.push_back(generate_source(program, operation_name(spec.node), target));
      node.workspace_bytes = std::max(node.workspace_bytes, sources.back().workspace_bytes);
    }
  }
  return node;
}

}  // namespace

std::string node_signature(const KernelSpec& spec) {
  std::string text(name(spec.node.op));
  for (const auto& [key, value] : spec.node.attributes.items()) text += fmt::format(" {}={}", key, describe(value));
  if (spec.node.body != nullptr) text += " " + spec.node.body->text;
  for (const TensorLayout& layout : spec.inputs) text += " | " + describe(layout);
  text += " ->";
  for (const TensorLayout& layout : spec.outputs) text += " | " + describe(layout);
  return text;
}

std::shared_ptr<const GeneratedNode> generate_node(const KernelSpec& spec, int architecture, int multiprocessors) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const GeneratedNode>> nodes;
  const std::string key = fmt::format("sm_{} x{} {}", architecture, multiprocessors, node_signature(spec));
  const std::lock_guard lock(mutex);
  std::weak_ptr<const GeneratedNode>& entry = nodes[key];
  std::shared_ptr<const GeneratedNode> node = entry.lock();
  if (node != nullptr) return node;
  node = std::make_shared<const GeneratedNode>(
      generate(spec, {.architecture = architecture, .multiprocessors = multiprocessors}));
  entry = node;
  std::erase_if(nodes, [](const auto& item) { return item.second.expired(); });
  return node;
}

}  // namespace ridgepoint::cuda
