#include "inspect/precision/errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "backends/reference/reference_device.h"
#include "ir/scope.h"
#include "ir/stored_tensors.h"
#include "passes/precision/autocast.h"
#include "passes/training/training.h"
#include "predict/forecast.h"

namespace ridgepoint {
namespace {

std::vector<Op> norm_ops() {
  std::vector<Op> ops;
  std::ranges::copy_if(kAllOps, std::back_inserter(ops),
                       [](Op op) { return traits(op).kernel_class == KernelClass::norm; });
  return ops;
}

using Tensors = std::map<std::string, HostTensor>;

bool is_compared(const Output& output) {
  return output.role == OutputRole::activation || output.role == OutputRole::gradient;
}

Tensors run(Program& program) {
  program.run();
  program.synchronize();
  Tensors results;
  for (const Output& output : program.graph().outputs()) {
    if (is_compared(output)) results[output.name] = convert(program.read_output(output.name), DType::fp64);
  }
  return results;
}

bool is_finite(const Tensors& tensors) {
  return std::ranges::all_of(tensors, [](const auto& named) {
    return std::ranges::all_of(named.second.template as<double>(), [](double x) { return std::isfinite(x); });
  });
}

// Halves the loss scale until no gradient overflows, as training does.
Tensors run_with_loss_scaling(Program& program) {
  for (;;) {
    Tensors results = run(program);
    if (!program.graph().find_input(kLossScale) || is_finite(results)) return results;
    HostTensor scale = program.read_input(kLossScale);
    if (scale.as<float>()[0] <= 1) return results;
    scale.as<float>()[0] /= 2;
    program.write_input(kLossScale, scale);
  }
}

// Copies inputs that both programs have, by name.
void copy_inputs(const Program& from, Program& to) {
  std::map<std::string, DType> targets;
  for (const NodeId id : to.graph().inputs()) {
    for (const StoredTensor& tensor : stored_tensors(to.graph(), to.graph().node(id)))
      targets.emplace(tensor.name, tensor.type.dtype);
  }
  for (const NodeId id : from.graph().inputs()) {
    for (const StoredTensor& stored : stored_tensors(from.graph(), from.graph().node(id))) {
      const auto target = targets.find(stored.name);
      if (target == targets.end()) continue;
      const HostTensor tensor = from.read_input(stored.name);
      to.write_input(stored.name, tensor.type.dtype == target->second ? tensor : convert(tensor, target->second));
    }
  }
}

// layers.3.attn.q_proj is layers.3 at depth 1 and layers.3.attn at depth 2.
std::string module_at_depth(std::string_view scope, int depth) {
  std::vector<std::string> levels = scope_levels(scope);
  levels.resize(std::min(levels.size(), static_cast<std::size_t>(depth)));
  return fmt::format("{}", fmt::join(levels, "."));
}

struct Difference {
  double squared_error = 0;
  double squared_exact = 0;
  void add(const HostTensor& tensor, const HostTensor& exact) {
    const std::span<const double> a = tensor.as<double>();
    const std::span<const double> b = exact.as<double>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double error = a[i] == b[i] ? 0.0 : a[i] - b[i];  // equal infinities, of a mask
      squared_error += error * error;
      squared_exact += std::isfinite(b[i]) ? b[i] * b[i] : 0.0;
    }
  }
  double relative() const {
    if (squared_error == 0) return 0;
    return squared_exact > 0 ? std::sqrt(squared_error / squared_exact) : std::numeric_limits<double>::infinity();
  }
};

// Outputs of one module, in the order of the graph.
struct Module {
  std::string name;
  std::string last_activation;
  std::vector<std::string> gradients;
};

std::vector<Module> modules_of(const Graph& graph, int depth) {
  std::vector<Module> modules;
  const auto module = [&](const std::string& scope) -> Module& {
    const std::string wanted = module_at_depth(scope, depth);
    const auto found = std::ranges::find(modules, wanted, &Module::name);
    return found != modules.end() ? *found : modules.emplace_back(Module{wanted, "", {}});
  };
  // The last activation of a module comes after those of its parts.
  for (const Output& output : graph.outputs()) {
    if (output.role == OutputRole::activation) {
      module(output.of).last_activation = output.name;
    } else if (output.role == OutputRole::gradient) {
      module(output.of.substr(0, output.of.rfind('.'))).gradients.push_back(output.name);
    }
  }
  return modules;
}

PrecisionError error_of(const Module& module, const Tensors& found, const Tensors& exact) {
  PrecisionError error;
  if (!module.last_activation.empty()) {
    Difference difference;
    difference.add(found.at(module.last_activation), exact.at(module.last_activation));
    error.forward = difference.relative();
  }
  if (!module.gradients.empty()) {
    Difference difference;
    for (const std::string& output : module.gradients) difference.add(found.at(output), exact.at(output));
    error.gradient = difference.relative();
  }
  return error;
}

ProgramOptions options_of(const PrecisionVariant& variant, std::optional<AllocatorKind> allocator = {}) {
  ProgramOptions options;
  options.allocator = allocator;
  options.compile.mode = Mode::backward;
  options.compile.keep.activations = true;
  options.compile.precision = variant.precision;
  if (variant.low_norms) {
    options.compile.force_low = norm_ops();
    // One kernel would compute a whole norm in fp32 inside, whatever type it reads and writes.
    options.compile.decompose = norm_ops();
  }
  return options;
}

}  // namespace

std::string name(const PrecisionVariant& variant) {
  return std::string(name(variant.precision)) + (variant.low_norms ? " low norms" : "");
}

std::vector<PrecisionErrorRow> measure_precision_errors(const Workload& workload, std::uint64_t seed,
                                                        const std::vector<PrecisionVariant>& variants,
                                                        const std::shared_ptr<Device>& device, int depth,
                                                        const std::function<bool(std::string_view)>& watch,
                                                        std::optional<AllocatorKind> allocator) {
  const auto goes_on = [&](std::string_view what) { return !watch || watch(what); };
  const Graph forward = workload.build();
  Graph wide = forward;
  widen_to_fp64(wide);
  const ProgramPlan exact_plan = plan_with_room(std::move(wide), make_reference_device(), options_of({}));
  Program numbers(plan_with_room(forward, device, options_of({}, allocator)));
  const std::vector<Module> modules = modules_of(numbers.graph(), depth);
  initialise(numbers, workload, seed);

  if (!goes_on("fp64")) return {};
  Program oracle(exact_plan);
  copy_inputs(numbers, oracle);
  const Tensors exact = run(oracle);

  std::vector<PrecisionErrorRow> rows;
  for (const Module& module : modules) rows.push_back({module.name, {}});
  for (const PrecisionVariant& variant : variants) {
    if (!goes_on(name(variant))) return {};
    Program program(plan_with_room(forward, device, options_of(variant, allocator)));
    copy_inputs(numbers, program);
    const Tensors found = run_with_loss_scaling(program);
    for (std::size_t i = 0; i < modules.size(); ++i) rows[i].errors.push_back(error_of(modules[i], found, exact));
  }
  return rows;
}

}  // namespace ridgepoint
