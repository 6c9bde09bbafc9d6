#include "ridgepoint/compile.h"

#include <string>

#include "core/nearest.h"
#include "ridgepoint/error.h"
#include "runtime/pass_target.h"

namespace ridgepoint {
namespace {

constexpr std::array<std::string_view, kAllCompiles.size()> kNames = {"off", "fuse"};

}  // namespace

std::string_view name(Compile compile) { return kNames[static_cast<std::size_t>(compile)]; }

Compile compile_from_name(std::string_view text) {
  for (const Compile compile : kAllCompiles) {
    if (name(compile) == text) return compile;
  }
  throw Error("graphs are not compiled as '" + std::string(text) + "'" + hint(text, kNames), ErrorKind::usage);
}

PassTarget pass_target(const Device& device) {
  PassTarget target;
  target.has_kernel = [&](const Graph& graph, const Node& node) { return device.has_kernel(graph, node); };
  target.operand_layout = [&](const Graph& graph, const Node& node, int i) {
    return device.operand_layout(graph, node, i);
  };
  return target;
}

bool fuse(Graph& graph, const Device& device) {
  PassOptions options;
  options.target = pass_target(device);
  bool changed = false;
  for (const PassResult& result : run_passes(graph, forward_pipeline(), options)) changed = changed || result.changed;
  return changed;
}

}  // namespace ridgepoint
