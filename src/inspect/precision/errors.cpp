#include "inspect/precision/errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "backends/reference/reference_device.h"
#include "core/random/random_values.h"
#include "ir/scope.h"
#include "ir/stored_tensors.h"
#include "ops/float8_product.h"
#include "passes/precision/autocast.h"
#include "passes/training/training.h"
#include "predict/forecast.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/tensor.h"
#include "runtime/device/matmul_problem.h"

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
  void add(std::span<const double> a, std::span<const double> b) {
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
    difference.add(found.at(module.last_activation).as<double>(), exact.at(module.last_activation).as<double>());
    error.forward = difference.relative();
  }
  if (!module.gradients.empty()) {
    Difference difference;
    for (const std::string& output : module.gradients)
      difference.add(found.at(output).as<double>(), exact.at(output).as<double>());
    error.gradient = difference.relative();
  }
  return error;
}

ProgramOptions options_of(const PrecisionVariant& variant, std::optional<AllocatorKind> allocator = {}) {
  ProgramOptions options;
  options.allocator = allocator;
  options.compile.mode = Mode::forward_backward;
  options.compile.keep.activations = true;
  options.compile.precision = variant.precision;
  if (variant.low_norms) {
    options.compile.force_low = norm_ops();
    // One kernel would compute a whole norm in fp32 inside, whatever type it reads and writes.
    options.compile.decompose = norm_ops();
  }
  return options;
}

// A double holds the exact sum of two numbers of the type, so rounding it gives the type's own addition.
double rounded(DType dtype, double value) {
  std::array<std::byte, 8> element{};
  store_element(dtype, element.data(), value);
  return load_element(dtype, element.data());
}

// Calls `add` at most `count` times. It returns whether the sum changed; once it does not change, it never will.
template <typename Add>
void repeat(std::int64_t count, const StopPoint& stop_point, Add add) {
  constexpr std::int64_t kBetweenStopPoints = 1 << 20;
  for (std::int64_t i = 0; i < count; ++i) {
    if (stop_point && i % kBetweenStopPoints == 0) stop_point();
    if (!add()) return;
  }
}

double plain_sum(DType dtype, double term, std::int64_t count, const StopPoint& stop_point) {
  double sum = 0;
  repeat(count, stop_point, [&] {
    const double before = std::exchange(sum, rounded(dtype, sum + term));
    return sum != before;
  });
  return sum;
}

double compensated_sum(DType dtype, double term, std::int64_t count, const StopPoint& stop_point) {
  double sum = 0;
  double lost = 0;
  repeat(count, stop_point, [&] {
    const double corrected = rounded(dtype, term - lost);
    const double next = rounded(dtype, sum + corrected);
    const double lost_before = std::exchange(lost, rounded(dtype, rounded(dtype, next - sum) - corrected));
    const double before = std::exchange(sum, next);
    return sum != before || lost != lost_before;
  });
  return sum;
}

struct Case {
  DType sum;
  DType term;
  bool cast = false;         // the statement shows the cast of the term, which does not change the result
  bool compensated = false;  // Kahan 1965: the next term includes what rounding lost
};

constexpr std::array kCases = {
    Case{DType::fp32, DType::fp32},
    Case{DType::fp16, DType::fp16},
    Case{DType::fp32, DType::fp16},
    Case{DType::fp32, DType::fp16, true},
    Case{DType::bf16, DType::bf16},
    Case{DType::fp32, DType::bf16},
    Case{DType::fp32, DType::fp32, false, true},
    Case{DType::fp16, DType::fp16, false, true},
    Case{DType::bf16, DType::bf16, false, true},
};

std::string statement_of(const Case& which) {
  const std::string sum(name(which.sum));
  const std::string term(name(which.term));
  const std::string added = which.cast ? sum + "(" + term + ")" : term;
  return sum + " += " + added + (which.compensated ? ", compensated" : "");
}

constexpr const char* kNormSteps[] = {"sum of x",       "x - mean",           "squares",
                                      "sum of squares", "1 / sqrt(variance)", "product"};
constexpr std::size_t kAllSteps = std::size(kNormSteps);

class LayerNorm {
 public:
  LayerNorm(DType dtype, std::size_t rounded_step) : dtype_(dtype), rounded_step_(rounded_step) {}

  std::vector<double> run(const std::vector<double>& x) {
    const auto width = static_cast<double>(x.size());
    double sum = 0;
    for (const double value : x) sum = step(0, sum + value);
    const double mean = step(0, sum / width);
    std::vector<double> results;
    double squares = 0;
    for (const double value : x) {
      const double centred = results.emplace_back(step(1, value - mean));
      squares = step(3, squares + step(2, centred * centred));
    }
    const double factor = step(4, 1 / std::sqrt(step(3, squares / width) + 1e-5));
    for (double& value : results) value = step(5, value * factor);
    return results;
  }
  double largest() const { return largest_; }

 private:
  double step(std::size_t which, double value) {
    if (which != rounded_step_ && rounded_step_ != kAllSteps) return value;
    largest_ = std::max(largest_, std::abs(value));
    return rounded(dtype_, value);
  }

  DType dtype_;
  std::size_t rounded_step_;
  double largest_ = 0;
};

// Values that the type has, so that reading them adds no error.
std::vector<double> values_of_a_row(DType dtype, double spread, std::int64_t row) {
  std::vector<float> values(1024);
  fill_random(values, {.mean = spread, .deviation = spread}, random_stream("layer_norm", 0), 1024 * row);
  std::vector<double> x;
  for (const float value : values) x.push_back(rounded(dtype, value));
  return x;
}

// Casts and copies have no row.
bool has_row(const Node& node) {
  const bool computes = op_class(node.op) != OpClass::elementwise || traits(node.op).arithmetic != Arithmetic::none;
  return launches(node.op) && computes;
}

std::string operand_types(const Graph& graph, const Node& node) {
  if (traits(node.op).kernel_class == KernelClass::matmul && is_tf32(node)) return "tf32";
  if (const std::optional<Float8Operands> codes = float8_operands(node.attributes)) {
    const std::string left(name(codes->left));
    return codes->left == codes->right ? left : left + ", " + std::string(name(codes->right));
  }
  std::set<DType> found;
  for (const Value value : node.inputs) {
    const DType dtype = graph.type(value).dtype;
    if (is_floating(dtype) && graph.producer_node(value).op != Op::constant) found.insert(dtype);
  }
  std::string text;
  for (const DType dtype : found) text += (text.empty() ? "" : ", ") + std::string(name(dtype));
  return text;
}

class TypeCounter {
 public:
  explicit TypeCounter(const Graph& graph) : graph_(graph) {}

  TypeTable run() {
    add_inputs(Role::parameter, "parameter");
    add_inputs(Role::data, "input");
    for (const NodeId id : graph_.order()) visit(graph_.node(id));
    for (const Output& output : graph_.outputs()) {
      if (output.role != OutputRole::gradient) continue;
      add({"gradient", with_layers_added_up(output.of), "", "", result_of(output.value)});
    }
    return std::move(table_);
  }

 private:
  std::string result_of(Value value) const { return std::string(name(graph_.type(value).dtype)); }

  void add_inputs(Role role, const char* part) {
    for (const NodeId id : graph_.inputs(role)) {
      const Node& node = graph_.node(id);
      add({part, with_layers_added_up(input_name(node)), "", "", result_of(node.outputs[0])});
    }
  }

  void visit(const Node& node) {
    if (node.op == Op::cast) {
      ++table_.casts;
      const Node& producer = graph_.producer_node(node.inputs[0]);
      const bool of_parameter = producer.op == Op::input && input_role(producer) == Role::parameter;
      if (of_parameter) ++table_.weight_casts;
    }
    if (!has_row(node)) return;
    add({std::string(name(node.phase)), with_layers_added_up(graph_.scope_name(node)), std::string(name(node.op)),
         operand_types(graph_, node), result_of(node.outputs[0])});
  }

  void add(TypeRow row) {
    const auto [found, is_new] =
        rows_.try_emplace(std::tuple(row.part, row.module, row.op, row.operands, row.result), table_.rows.size());
    if (is_new) table_.rows.push_back(std::move(row));
    ++table_.rows[found->second].nodes;
  }

  const Graph& graph_;
  TypeTable table_;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, std::size_t> rows_;
};

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

std::vector<Accumulation> accumulate_in_each_type(std::int64_t count, double term, const StopPoint& stop_point) {
  if (count < 1) throw Error("--count: " + std::to_string(count) + " is too small; the least is 1", ErrorKind::usage);
  if (!std::isfinite(term) || term <= 0) throw Error("--term must be a positive number", ErrorKind::usage);
  const double exact = static_cast<double>(count) * term;
  std::vector<Accumulation> rows;
  for (const Case& which : kCases) {
    Accumulation row{statement_of(which), which.sum, which.term};
    const double value = rounded(which.sum, rounded(which.term, term));
    row.result = which.compensated ? compensated_sum(which.sum, value, count, stop_point)
                                   : plain_sum(which.sum, value, count, stop_point);
    row.error = std::abs(row.result - exact) / exact;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<NormStep> round_steps_of_layer_norm() {
  constexpr std::int64_t kRowCount = 16;
  std::vector<NormStep> steps;
  for (const double spread : {1.0, 300.0}) {
    for (std::size_t which = 0; which <= kAllSteps; ++which) {
      NormStep step{which == kAllSteps ? "all" : kNormSteps[which], spread, 0, {}};
      for (const DType dtype : {DType::fp16, DType::bf16}) {
        Difference difference;
        LayerNorm exact(DType::fp64, which), low(dtype, which);
        for (std::int64_t row = 0; row < kRowCount; ++row) {
          const std::vector<double> x = values_of_a_row(dtype, spread, row);
          difference.add(low.run(x), exact.run(x));
        }
        step.largest = std::max(step.largest, exact.largest());
        const double error = difference.relative();
        step.errors.emplace_back(dtype, std::isfinite(error) ? error : std::numeric_limits<double>::infinity());
      }
      steps.push_back(std::move(step));
    }
  }
  return steps;
}

TypeTable types_of(const Graph& graph) { return TypeCounter(graph).run(); }

}  // namespace ridgepoint
