// Programs whose buffers have fixed addresses: the same values and the same counts as with the caching allocator, run
// after run.

#include <algorithm>
#include <cmath>

#include "backends/null/null_device.h"
#include "backends/reference/reference_device.h"
#include "memory/memory_trace.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "runtime/device/activity.h"
#include "runtime/device/device.h"
#include "support/graphs/random_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::Tensors;

constexpr int kRuns = 4;  // the first allocates, the second may be captured, later ones repeat it

ProgramOptions with(AllocatorKind allocator, Compile level = Compile::off) {
  return {.compile = {.level = level}, .allocator = allocator};
}

std::vector<std::vector<std::byte>> bytes_of_runs(const Graph& graph, const Tensors& inputs,
                                                  const std::shared_ptr<Device>& device,
                                                  const ProgramOptions& options) {
  Program program(graph, device, options);
  for (const auto& [name, tensor] : inputs) program.write_input(name, tensor);
  std::vector<std::vector<std::byte>> bytes;
  for (int run = 0; run < kRuns; ++run) {
    program.run();
    for (const Output& output : graph.outputs()) bytes.push_back(program.read_output(output.name).data);
  }
  for (const auto& [name, tensor] : inputs) bytes.push_back(program.read_input(name).data);
  return bytes;
}

bool has_fp64(const Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    return std::ranges::any_of(graph.node(id).outputs, [&](Value v) { return graph.type(v).dtype == DType::fp64; });
  });
}

void expect_equal_memory(const Program& found, const Program& expected) {
  EXPECT_EQ(found.memory_use().allocated_bytes, expected.memory_use().allocated_bytes);
  EXPECT_EQ(found.memory_use().peak_allocated_bytes, expected.memory_use().peak_allocated_bytes);
  EXPECT_EQ(found.memory_use().peak_requested_bytes, expected.memory_use().peak_requested_bytes);
  EXPECT_EQ(found.memory_use().peak_reserved_bytes, expected.memory_use().peak_reserved_bytes);
  EXPECT_EQ(found.before_backward_bytes(), expected.before_backward_bytes());
}

TEST(Arena, computes_the_bits_that_the_caching_allocator_computes) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Graph graph = testing::random_graph(seed);
    const Tensors inputs = testing::random_whole_inputs(graph, seed);
    const std::shared_ptr<Device> device = has_fp64(graph) ? make_reference_device() : open_device("cpu");
    for (const Compile level : {Compile::off, Compile::full}) {
      EXPECT_EQ(bytes_of_runs(graph, inputs, device, with(AllocatorKind::arena, level)),
                bytes_of_runs(graph, inputs, device, with(AllocatorKind::caching, level)));
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ":\n" << print_graph(graph);
  }
}

TEST(Arena, of_random_graphs_is_predicted_by_the_null_device_to_the_byte) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Graph graph = testing::random_graph(seed);
    const std::shared_ptr<Device> device = has_fp64(graph) ? make_reference_device() : open_device("cpu");
    const ProgramPlan plan(graph, device, with(AllocatorKind::arena));
    Program real(plan);
    Program predicted(plan, make_null_device(device));
    for (int run = 0; run < 2; ++run) {
      real.run();
      predicted.run();
      expect_equal_memory(real, predicted);
    }
    EXPECT_EQ(real.memory_use().peak_allocated_bytes, real.liveness_lower_bound_bytes());
    EXPECT_GE(real.memory_use().peak_reserved_bytes, real.liveness_lower_bound_bytes());
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ":\n" << print_graph(graph);
  }
}

// The parameters, the loss and the memory after a few steps of the tiny Transformer.
struct Trained {
  std::vector<std::vector<std::byte>> bytes;
  MemoryUse use;
  std::size_t before_backward_bytes;
};

Trained train_tiny(const ProgramOptions& options) {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 32;
  Program program(build_transformer(config, 2), open_device("cpu"), options);
  initialise(program, Transformer(config, 2), 7);
  Trained trained;
  for (int run = 0; run < kRuns; ++run) {
    program.run();
    trained.bytes.push_back(program.read_output("loss").data);
  }
  for (const ParameterDeclaration& parameter : parameters_of(program.graph()))
    trained.bytes.push_back(program.read_input(parameter.name).data);
  trained.use = program.memory_use();
  trained.before_backward_bytes = program.before_backward_bytes();
  return trained;
}

TEST(Arena, trains_the_tiny_transformer_to_the_same_bits_in_less_memory) {
  for (const Compile level : kAllCompiles) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      ProgramOptions options = with(AllocatorKind::caching, level);
      options.compile.mode = Mode::step;
      options.compile.precision = precision;
      const Trained caching = train_tiny(options);
      options.allocator = AllocatorKind::arena;
      const Trained arena = train_tiny(options);
      EXPECT_EQ(arena.bytes, caching.bytes) << name(level) << " " << name(precision);
      EXPECT_EQ(arena.use.peak_requested_bytes, caching.use.peak_requested_bytes);
      EXPECT_EQ(arena.use.requested_bytes, caching.use.requested_bytes);
      EXPECT_LE(arena.use.peak_allocated_bytes, caching.use.peak_allocated_bytes);
      EXPECT_LT(arena.use.peak_reserved_bytes, caching.use.peak_reserved_bytes);
      EXPECT_LE(arena.before_backward_bytes, caching.before_backward_bytes);
      EXPECT_GT(arena.before_backward_bytes, 0u);
    }
  }
}

TEST(Arena, is_what_compile_full_uses_unless_another_is_asked_for) {
  const auto kind = [](const ProgramOptions& options) {
    return ProgramPlan(testing::random_graph(1), open_device("null"), options).allocator();
  };
  EXPECT_EQ(kind({.compile = {.level = Compile::off}}), AllocatorKind::caching);
  EXPECT_EQ(kind({.compile = {.level = Compile::fuse}}), AllocatorKind::caching);
  EXPECT_EQ(kind({.compile = {.level = Compile::full}}), AllocatorKind::arena);
  EXPECT_EQ(kind(with(AllocatorKind::caching, Compile::full)), AllocatorKind::caching);
  EXPECT_EQ(kind(with(AllocatorKind::arena, Compile::off)), AllocatorKind::arena);
}

Graph chain(std::int64_t elements) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {elements}}, Role::data);
  graph.add_output("y", neg(graph, exp(graph, neg(graph, x))));
  return graph;
}

TEST(Arena, counts_the_peak_of_runs_after_a_reset) {
  for (const AllocatorKind kind : kAllAllocatorKinds) {
    Program program(chain(1000), open_device("cpu"), with(kind));
    for (int run = 0; run < 3; ++run) program.run();
    const MemoryUse before = program.memory_use();
    EXPECT_GT(before.peak_allocated_bytes, before.allocated_bytes);
    program.reset_peak_memory();
    EXPECT_EQ(program.memory_use().peak_allocated_bytes, before.allocated_bytes);
    program.run();
    EXPECT_EQ(program.memory_use().peak_allocated_bytes, before.peak_allocated_bytes) << name(kind);
  }
}

std::vector<MemoryEventKind> kinds(const MemoryTrace& trace) {
  std::vector<MemoryEventKind> result;
  for (std::size_t i = 0; i < trace.size(); ++i) result.push_back(trace[i].kind);
  return result;
}

TEST(Arena, writes_the_trace_of_the_caching_allocator_in_every_run) {
  std::vector<MemoryTrace> traces(2, MemoryTrace(1000));
  for (const AllocatorKind kind : kAllAllocatorKinds) {
    MemoryTrace& trace = traces[static_cast<std::size_t>(kind)];
    ProgramOptions options = with(kind);
    options.memory_trace = &trace;
    Program program(chain(1000), open_device("cpu"), options);
    for (int run = 0; run < 3; ++run) program.run();
  }
  const auto& [caching, arena] = std::tie(traces[0], traces[1]);
  EXPECT_EQ(kinds(arena), kinds(caching));
  for (std::size_t i = 1; i < arena.size(); ++i) {  // the segments differ
    EXPECT_EQ(arena[i].bytes, caching[i].bytes);
    EXPECT_EQ(arena[i].requested_bytes, caching[i].requested_bytes);
    EXPECT_EQ(arena[i].node, caching[i].node);
    EXPECT_EQ(arena[i].category, caching[i].category);
  }
}

// Reads a value after each launch; null where it has no memory.
class Reader : public LaunchObserver {
 public:
  Reader(Program& program, Value value) : program_(program), value_(value) {}
  void before_launch(std::uint32_t) override {}
  void after_launch(std::uint32_t) override {
    try {
      seen.push_back(program_.read_value(value_).as<float>()[0]);
    } catch (const Error&) {
      seen.push_back(std::nullopt);
    }
  }
  std::vector<std::optional<float>> seen;

 private:
  Program& program_;
  Value value_;
};

TEST(Arena, keeps_a_value_readable_until_its_last_use_and_no_longer) {
  for (const AllocatorKind kind : kAllAllocatorKinds) {
    Graph graph;
    const Value x = input(graph, "x", {DType::fp32, {1}}, Role::data);
    const Value middle = exp(graph, neg(graph, x));
    graph.add_output("y", tanh(graph, neg(graph, middle)));
    Program program(std::move(graph), open_device("cpu"), with(kind));
    for (int run = 0; run < 3; ++run) program.run();
    Reader reader(program, middle);
    program.observe(&reader);
    program.run();
    EXPECT_THAT(reader.seen, ElementsAre(std::nullopt, 1.0F, 1.0F, std::nullopt)) << name(kind);
    program.observe(nullptr);
    EXPECT_THROW(program.read_value(middle), Error);
    program.run();
    EXPECT_NEAR(program.read_output("y").as<float>()[0], std::tanh(-1.0F), 1e-6F);
  }
}

}  // namespace
}  // namespace ridgepoint
