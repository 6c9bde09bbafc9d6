// NVRTC compiles every kernel of the models for the supported architectures, without local memory.

#include <algorithm>
#include <limits>
#include <set>

#include "backends/cuda/generator/generated_batch.h"
#include "backends/cuda/generator/kernel.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "backends/cuda/needs.h"
#include "compile/compile.h"
#include "models/transformer/transformer.h"
#include "ops/rule.h"
#include "passes/pass.h"
#include "plan/plan.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr int kMultiprocessors = 132;

// All generated kernels of a set of models, or those whose names end so, as one translation unit.
class Batch {
 public:
  explicit Batch(int architecture, std::string_view end = "") : architecture_(architecture), end_(end) {}

  void add_model(const TransformerConfig& config, Mode mode) { add_model(config, CompileOptions{.mode = mode}); }
  void add_model(const TransformerConfig& config, const CompileOptions& options) {
    PassTarget target;
    target.has_kernel = [](const Graph& g, const Node& node) {
      return op_class(node.op) != OpClass::composite || cuda::fits_generated(g, node);
    };
    target.operand_layout = [](const Graph&, const Node& node, int) {
      return op_class(node.op) == OpClass::contraction ? OperandLayout::matrix
             : op_class(node.op) == OpClass::gather    ? OperandLayout::dense
                                                       : OperandLayout::any;
    };
    add_graph(ridgepoint::compile(build_transformer(config, 4), target, options));
  }
  void add_graph(const Graph& graph) {
    for (const PlanStep& step : make_plan(graph).steps) add_step(graph, step);
  }

  std::size_t size() const { return texts_.size(); }

  // Throws Error if a source does not compile. Returns the output of ptxas for each kernel.
  std::string compile() const {
    const std::string text = fmt::format("{}{}{}{}{}", cuda::generated_intrinsics(), cuda::generated_prelude(),
                                         cuda::generated_codes(), cuda::generated_float8(), kernels_);
    const cuda::CompiledImage image =
        cuda::nvrtc().compile(text, "models", architecture_, {"--minimal", "--ptxas-options=-v"});
    EXPECT_FALSE(image.bytes.empty());
    return image.log;
  }

 private:
  void add_step(const Graph& graph, const PlanStep& step) {
    const Node& node = graph.node(step.node);
    if (!cuda::fits_generated(graph, node) || !operation_name(node).ends_with(end_)) return;
    const auto layouts = [](const std::vector<Operand>& operands) {
      std::vector<TensorLayout> list;
      for (const Operand& operand : operands) list.push_back(operand.layout);
      return list;
    };
    const std::vector<TensorLayout> inputs = layouts(step.inputs);
    const std::vector<TensorLayout> outputs = layouts(step.outputs);
    const auto made = cuda::generate_node({graph, node, inputs, outputs}, architecture_, kMultiprocessors);
    for (const cuda::GeneratedSource& source : made->sources) {
      if (!texts_.insert(source.text).second) continue;
      kernels_ += testing::renamed_kernels(source, texts_.size());
    }
  }

  int architecture_;
  std::string_view end_;
  std::set<std::string> texts_;
  std::string kernels_;
};

// The lines such as "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" with a number other than 0.
std::vector<std::string> local_memory(const std::string& log) {
  std::vector<std::string> found;
  for (std::size_t at = log.find("bytes stack frame"); at != std::string::npos;
       at = log.find("bytes stack frame", at + 1)) {
    const std::size_t begin = log.rfind('\n', at) + 1;
    const std::string line = log.substr(begin, log.find('\n', at) - begin);
    if (line.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == std::string::npos)
      found.push_back(line);
  }
  return found;
}

void expect_compiles(Batch& batch, std::size_t least_kernels) {
  ASSERT_GE(batch.size(), least_kernels);
  const std::string log = batch.compile();
  ASSERT_NE(log.find("bytes stack frame"), std::string::npos) << log;
  for (const std::string& line : local_memory(log)) ADD_FAILURE() << line;
}

using GeneratedKernelsOfModel = testing::WithNvrtc<::testing::TestWithParam<TransformerConfig>>;

TEST_P(GeneratedKernelsOfModel, compile_for_hopper_without_local_memory) {
  Batch batch(90);
  for (const std::int64_t context : {128, 256, 512, 1024}) {
    TransformerConfig config = GetParam();
    config.context = context;
    for (const Mode mode : {Mode::forward, Mode::forward_backward, Mode::step}) batch.add_model(config, mode);
  }
  expect_compiles(batch, 30);
}

using GeneratedKernelsOfStreams = testing::WithNvrtc<::testing::TestWithParam<std::int64_t>>;

// Residual streams in bf16 of the widths of Qwen 2.5: norms, SwiGLU and their derivatives.
TEST_P(GeneratedKernelsOfStreams, with_magnitudes_and_codes_compile_for_hopper_without_local_memory) {
  DeviceOptions h100;
  h100.card = describe_card(*find_datasheet("h100"));
  const std::int64_t width = GetParam();
  const Transformer workload({"custom", 512, 1024, width, 5 * width, 2, width / 128}, 8);
  CompileOptions options{.mode = Mode::step, .precision = Precision::fp8, .level = Compile::full};
  options.master_weights = false;
  const Graph compiled = compile(workload.build(), *open_device("null", h100), options);
  Batch magnitudes(90, "_magnitudes"), codes(90, "_codes");
  for (Batch* batch : {&magnitudes, &codes}) batch->add_graph(compiled);
  expect_compiles(magnitudes, 4);
  expect_compiles(codes, 2);
}

INSTANTIATE_TEST_SUITE_P(widths, GeneratedKernelsOfStreams, ::testing::Values(896, 1536, 2048, 3584));

using GeneratedKernelsOfOptimizers = testing::WithNvrtc<>;

// The optimizers without hand-written kernels, with bf16 parameters and with fp32 gradients of micro-batches.
TEST_F(GeneratedKernelsOfOptimizers, compile_for_hopper_without_local_memory) {
  TransformerConfig config = transformer_preset("small");
  config.layers = 1;
  Batch batch(90);  // of all, because they share most kernels
  for (const Optimizer kind : kAllOptimizers) {
    for (const bool master_weights : {true, false}) {
      CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .level = Compile::fuse};
      options.optimizer.kind = kind;
      if (options.optimizer.find("momentum")) options.optimizer.hyperparameters = {{"momentum", 0.9}};
      options.master_weights = master_weights;
      batch.add_model(config, options);
      options.accumulate = 2;
      batch.add_model(config, options);
    }
  }
  expect_compiles(batch, 30);
}

TEST_F(GeneratedKernelsOfOptimizers, update_a_parameter_with_codes_of_moments_in_one_launch) {
  Graph graph;
  const auto operand = [&](DType dtype, const Shape& shape) {
    return input(graph, "x" + std::to_string(graph.node_capacity()), {dtype, shape}, Role::data);
  };
  const Shape shape{40, 1024};
  const Shape scales{40, 4};
  const UpdateOperands operands{.step = operand(DType::fp32, {}),
                                .parameter = operand(DType::fp32, shape),
                                .gradient = operand(DType::fp32, shape),
                                .states = {operand(DType::dynamic8, shape), operand(DType::fp32, scales),
                                           operand(DType::udynamic8, shape), operand(DType::fp32, scales)}};
  graph.add_output("parameter", optimizer_step(graph, {.kind = Optimizer::adamw_8bit}, operands)[0]);
  const PlanStep step = make_plan(graph).steps.back();
  std::vector<TensorLayout> inputs, outputs;
  for (const Operand& one : step.inputs) inputs.push_back(one.layout);
  for (const Operand& one : step.outputs) outputs.push_back(one.layout);
  const Node& node = graph.node(step.node);
  ASSERT_TRUE(cuda::fits_generated(graph, node));
  const auto made = cuda::generate_node({graph, node, inputs, outputs}, 90, kMultiprocessors);
  ASSERT_EQ(made->sources.size(), 1U);
  EXPECT_EQ(made->sources[0].launches.size(), 1U);
}

std::string preset_name(const ::testing::TestParamInfo<TransformerConfig>& preset) {
  std::string name = preset.param.name;
  std::ranges::replace_if(
      name, [](char c) { return c == '.' || c == '-'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(presets, GeneratedKernelsOfModel, ::testing::ValuesIn(transformer_presets()), preset_name);

using GeneratedKernelsFor = testing::WithNvrtc<::testing::TestWithParam<int>>;

TEST_P(GeneratedKernelsFor, other_architectures_compile_without_local_memory) {
  Batch batch(GetParam());
  for (const char* preset : {"small", "2.7b"}) {
    for (const Mode mode : {Mode::forward, Mode::forward_backward, Mode::step}) {
      TransformerConfig config = transformer_preset(preset);
      config.context = 256;
      batch.add_model(config, mode);
    }
  }
  if (cuda::nvrtc().options(GetParam()).front().find("compute_") != std::string::npos) {
    batch.compile();
    GTEST_SKIP() << "NVRTC " << cuda::nvrtc().version() << " compiles to PTX for it, which the driver makes code of";
  }
  expect_compiles(batch, 30);
}

INSTANTIATE_TEST_SUITE_P(architectures, GeneratedKernelsFor, ::testing::Values(80, 100));

using GeneratedKernelsWithConstants = testing::WithNvrtc<>;

// For example scale(x, 1e39), which in fp32 is a scale by infinity.
TEST_F(GeneratedKernelsWithConstants, compile_whatever_the_constant_is) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Batch batch(90);
  const std::vector<double> reals = {0.0,    -0.0,  0.1,       1e39,       -1e39,       1e308,
                                     5e-324, 1e-45, kInfinity, -kInfinity, std::nan("")};
  const std::vector<double> wholes = {0.0, -1.0, 2147483647.0, -2147483648.0};
  const std::vector<double> longer = {0.0, 0x1p62, -0x1p62, -0x1p63};
  for (const DType dtype : kAllDTypes) {
    for (const double value : dtype == DType::int64 ? longer : dtype == DType::int32 ? wholes : reals) {
      Graph graph;
      const Value x = input(graph, "x", {dtype, {64}}, Role::data);
      const Value y = constant(graph, value, dtype);
      const Value same = equal(graph, x, y);
      graph.add_output("same", same);
      graph.add_output("chosen", where(graph, same, x, y));
      if (is_floating(dtype)) graph.add_output("larger", maximum(graph, x, y));
      batch.add_graph(graph);
    }
  }
  EXPECT_GT(batch.size(), 60U);
  EXPECT_NE(batch.compile().find("bytes stack frame"), std::string::npos);
}

using NvrtcCompiler = testing::WithNvrtc<>;

TEST_F(NvrtcCompiler, says_what_is_wrong_with_a_source) {
  EXPECT_THAT(error_of([&] {
                cuda::nvrtc().compile("extern \"C\" __global__ void broken() { undefined_name = 1; }", "broken", 90);
              }),
              HasSubstr("undefined_name"));
}

TEST_F(NvrtcCompiler, leaves_cards_newer_than_itself_to_the_driver) {
  const cuda::CompiledImage image = cuda::nvrtc().compile("extern \"C\" __global__ void empty() {}", "empty", 990);
  EXPECT_NE(image.bytes.find(".entry empty"), std::string::npos);
}

TEST_F(NvrtcCompiler, refuses_cards_older_than_it_knows) {
  EXPECT_THROW(cuda::nvrtc().compile("extern \"C\" __global__ void empty() {}", "empty", 20), Error);
}

}  // namespace
}  // namespace ridgepoint
