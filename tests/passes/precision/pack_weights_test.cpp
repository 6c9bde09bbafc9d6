// Frozen weights in 4 and 8 bits: which are packed, and that a step computes what it computes with the widened weights.

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ir/packed_weight.h"
#include "ir/stored_tensors.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

const TransformerConfig kModel{"custom", 50, 8, 96, 160, 2, 4};

// Rows of one layer's heads of 24 are packed in the order of a file.
const std::vector<PublishedWeight> kPublished = {{"layers.0.attn.q_proj.weight", {24, 24, 0}},
                                                 {"layers.0.attn.k_proj.weight", {24, 16, 4}}};

ProgramOptions options_of(Compile level, BaseWeights format) {
  return {.compile = {.mode = Mode::step,
                      .precision = Precision::bf16,
                      .level = level,
                      .keep = {.results = true},
                      .base_weights = format,
                      .lora = LoraOptions{.rank = 4, .alpha = 8},
                      .published_weights = kPublished}};
}

std::set<std::string> packed_tensors(const Graph& graph) {
  std::set<std::string> names;
  for (const NodeId id : graph.inputs()) {
    for (const StoredTensor& tensor : stored_tensors(graph, graph.node(id)))
      if (tensor.packed) names.insert(tensor.name);
  }
  return names;
}

struct PackWeights : ::testing::TestWithParam<std::tuple<Compile, BaseWeights>> {
  Compile level() const { return std::get<0>(GetParam()); }
  BaseWeights format() const { return std::get<1>(GetParam()); }
};

TEST_P(PackWeights, stores_linear_layers_but_the_head_and_what_trains) {
  const ProgramPlan plan(build_transformer(kModel, 2), open_device("cpu"), options_of(level(), format()));
  const std::set<std::string> names = packed_tensors(plan.graph());
  EXPECT_THAT(names, SizeIs(kModel.layers * 7U));
  EXPECT_THAT(names, Contains("layers.1.attn.k_proj.weight"));
  EXPECT_THAT(names, Not(Contains("lm_head.weight")));
  EXPECT_THAT(names, Each(Not(HasSubstr("lora_"))));
  // Forward and backward widen a weight each: nothing is kept between them.
  const Op widens = format() == BaseWeights::fp8 ? Op::widen_codes : Op::dequantise;
  EXPECT_GT(testing::count(plan.graph(), widens), testing::count(plan.graph(), Op::input) / 8);
}

TEST_P(PackWeights, compute_as_their_widened_values_do) {
  const Transformer workload(kModel, 2);
  Program packed(workload.build(), open_device("cpu"), options_of(level(), format()));
  Program wide(workload.build(), open_device("cpu"), options_of(level(), BaseWeights::as_is));
  initialise(packed, workload, 3);
  initialise(wide, workload, 3);
  const std::set<std::string> names = packed_tensors(packed.graph());
  for (const std::string& name : names) {
    EXPECT_GT(testing::relative_error(packed.read_input(name), wide.read_input(name)), 1e-3) << name;
    wide.write_input(name, packed.read_input(name));
  }
  for (int step = 0; step < 2; ++step) {
    packed.run();
    wide.run();
    EXPECT_EQ(testing::relative_error(packed.read_output("logits"), wide.read_output("logits")), 0) << step;
  }
  const std::string adapter = "layers.0.attn.q_proj.lora_A.weight";
  EXPECT_EQ(testing::relative_error(packed.read_input(adapter), wide.read_input(adapter)), 0);
}

TEST_P(PackWeights, take_bytes_as_they_are) {
  const Transformer workload(kModel, 2);
  Program program(workload.build(), open_device("cpu"), options_of(level(), format()));
  initialise(program, workload, 3);
  const PublishedWeight& published = kPublished[1];
  const PackedMatrix matrix{format(), 96, 96, format() == BaseWeights::fp8 ? RowOrder{} : published.rows};
  HostTensor elements({DType::fp32, {96, 96}});
  for (std::size_t i = 0; i < elements.as<float>().size(); ++i)
    elements.as<float>()[i] = static_cast<float>(i * 37 % 101) - 50;
  HostTensor bytes({DType::packed, {matrix.bytes()}});
  pack(matrix, elements_of(elements.as<float>()), bytes.data);
  program.write_input(published.parameter, bytes);
  if (format() == BaseWeights::fp8) {  // whose scale is that of the weights beside it, and these are smaller
    for (const char* beside : {"layers.0.attn.q_proj.weight", "layers.0.attn.v_proj.weight"})
      program.write_input(beside, HostTensor({DType::fp32, {96, 96}}));
  }
  HostTensor expected({DType::fp32, {96, 96}});
  unpack(matrix, bytes.data.data(), 0, matrix.elements(), expected.as<float>().data());
  EXPECT_EQ(program.read_input(published.parameter).data, expected.data);
  bytes.type = {DType::packed, {matrix.bytes() - 4}};
  bytes.data.resize(bytes.data.size() - 4);
  EXPECT_THAT(error_of([&] { program.write_input(published.parameter, bytes); }), HasSubstr("packed"));
}

// The bytes are parts of the state, so that a run that goes on has exactly these.
TEST_P(PackWeights, come_back_from_their_bytes) {
  const Transformer workload(kModel, 2);
  Program first(workload.build(), open_device("cpu"), options_of(level(), format()));
  Program second(workload.build(), open_device("cpu"), options_of(level(), format()));
  initialise(first, workload, 3);
  initialise(second, workload, 4);
  const std::string name = "layers.1.ffn.w2.weight";
  ASSERT_NE(testing::relative_error(second.read_input(name), first.read_input(name)), 0);
  std::size_t found = 0;
  for (const StatePart& part : first.state_parts()) {
    if (!part.is_packed) continue;
    ++found;
    EXPECT_FALSE(part.is_parameter);
    std::vector<std::byte> bytes(part.bytes());
    first.read_part(part, bytes);
    second.write_part(part, bytes);
  }
  EXPECT_EQ(found, kModel.layers * 7U);
  for (const std::string& weight : packed_tensors(first.graph()))
    EXPECT_EQ(testing::relative_error(second.read_input(weight), first.read_input(weight)), 0) << weight;
}

INSTANTIATE_TEST_SUITE_P(all, PackWeights,
                         ::testing::Combine(::testing::Values(Compile::off, Compile::full),
                                            ::testing::Values(BaseWeights::nf4, BaseWeights::nf4_single,
                                                              BaseWeights::int8, BaseWeights::fp8)),
                         [](const auto& tested) {
                           std::string format(name(std::get<1>(tested.param)));
                           std::ranges::replace(format, '-', '_');
                           return std::string(name(std::get<0>(tested.param))) + "_" + format;
                         });

TEST(PackedWeights, of_files_that_have_them_wide_stay_wide) {
  ProgramOptions options = options_of(Compile::full, BaseWeights::nf4);
  options.compile.published_weights = {{.parameter = "layers.1.ffn.w3.weight", .stays_wide = true}};
  const ProgramPlan plan(build_transformer(kModel, 2), open_device("cpu"), options);
  EXPECT_THAT(packed_tensors(plan.graph()), SizeIs(kModel.layers * 7U - 1));
  EXPECT_THAT(packed_tensors(plan.graph()), Not(Contains("layers.1.ffn.w3.weight")));
}

TEST(PackedWeights, of_a_forward_run_need_no_adapters) {
  const auto plan = [](BaseWeights format) {
    return ProgramPlan(build_transformer(kModel, 2), open_device("cpu"),
                       {.compile = {.mode = Mode::forward, .precision = Precision::bf16, .base_weights = format}});
  };
  EXPECT_THAT(packed_tensors(plan(BaseWeights::nf4).graph()), SizeIs(kModel.layers * 7U));
  EXPECT_THAT(packed_tensors(plan(BaseWeights::as_is).graph()), SizeIs(0));
}

TEST(PackedWeights, have_rows_in_an_order_of_their_heads) {
  const std::vector<std::int64_t> rows = {48, 6};
  const auto orders = [&](std::vector<std::int64_t> numbers) {
    Attributes attributes;
    attributes.set(kRowOrder, std::move(numbers));
    return row_orders(attributes, rows);
  };
  EXPECT_EQ(orders({24, 16, 4, 0, 0, 0})[0], (RowOrder{24, 16, 4}));
  for (const std::vector<std::int64_t>& wrong : std::vector<std::vector<std::int64_t>>{
           {24, 16, 4}, {24, 24, 4, 0, 0, 0}, {24, 15, 0, 0, 0, 0}, {0, 2, 0, 0, 0, 0}, {32, 16, 0, 0, 0, 0}})
    EXPECT_THAT(error_of([&] { orders(wrong); }), HasSubstr("none of its heads"));
}

TEST(PackedWeights, need_frozen_weights_and_a_low_type) {
  const auto plan = [](CompileOptions options) {
    options.base_weights = BaseWeights::nf4;
    ProgramPlan(build_transformer(kModel, 2), open_device("cpu"), {.compile = std::move(options)});
  };
  EXPECT_THAT(error_of([&] { plan({.lora = LoraOptions{}}); }), HasSubstr("not in fp32"));
  EXPECT_THAT(error_of([&] { plan({.mode = Mode::step, .precision = Precision::bf16}); }), HasSubstr("add adapters"));
}

ProgramOptions options_in_fp8(Compile level, Checkpoint checkpoint, BaseWeights format) {
  ProgramOptions options = options_of(level, format);
  options.compile.precision = Precision::fp8;
  options.compile.checkpoint = checkpoint;
  options.compile.lora->targets = {"q_proj", "w2"};
  options.compile.published_weights.clear();
  return options;
}

// The losses of two steps and what they make of the adapters.
testing::Tensors trained(const ProgramOptions& options, const std::string& device) {
  const Transformer workload({"custom", 50, 16, 128, 256, 2, 2}, 2);
  Program program(workload.build(), open_device(device), options);
  initialise(program, workload, 3);
  testing::Tensors found;
  for (const std::string step : {"first", "second"}) {
    program.run();
    program.synchronize();
    found.emplace(step, program.read_output("loss"));
  }
  for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
    if (parameter.name.find("lora_") != std::string::npos)
      found.emplace(parameter.name, program.read_input(parameter.name));
  }
  return found;
}

// The codes of a weight are those that the step would make of it.
TEST(Float8BaseWeights, compute_to_the_bit_what_a_step_in_fp8_computes) {
  for (const std::string device : {"cpu", "reference"}) {
    for (const Compile level : kAllCompiles) {
      for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::block}) {
        const testing::Tensors expected = trained(options_in_fp8(level, checkpoint, BaseWeights::as_is), device);
        const testing::Tensors found = trained(options_in_fp8(level, checkpoint, BaseWeights::fp8), device);
        EXPECT_THAT(expected, SizeIs(2 + 8U));
        for (const auto& [name, tensor] : expected)
          EXPECT_EQ(found.at(name).data, tensor.data) << device << ' ' << ridgepoint::name(level) << ' ' << name;
      }
    }
  }
}

TEST(Float8BaseWeights, are_not_quantised_by_the_step) {
  DeviceOptions h200;
  h200.card = describe_card(*find_datasheet("h200"));
  const std::shared_ptr<Device> card = open_device("null", h200);
  const auto plan = [&](BaseWeights format) {
    return ProgramPlan(build_transformer({"custom", 50, 16, 128, 256, 2, 2}, 2), card,
                       options_in_fp8(Compile::full, Checkpoint::none, format));
  };
  const ProgramPlan wide = plan(BaseWeights::as_is), packed = plan(BaseWeights::fp8);
  const std::size_t weights = kModel.layers * 4U;  // merged ones
  EXPECT_EQ(testing::count(packed.graph(), Op::quantise) + weights, testing::count(wide.graph(), Op::quantise));
  EXPECT_EQ(testing::count(packed.graph(), Op::transpose_codes),
            testing::count(wide.graph(), Op::transpose_codes) + weights - 1);  // the first layer has no gradient
  EXPECT_EQ(testing::count(packed.graph(), Op::widen_codes), 0);
}

// Weights of one matrix have one scale, whichever is written when.
TEST(Float8BaseWeights, are_written_one_by_one) {
  const Transformer workload(kModel, 2);
  Program program(workload.build(), open_device("cpu"), options_of(Compile::full, BaseWeights::fp8));
  initialise(program, workload, 3);
  const std::string q = "layers.1.attn.q_proj.weight", k = "layers.1.attn.k_proj.weight";
  const HostTensor before = program.read_input(k);
  HostTensor larger = program.read_input(q);
  for (float& element : larger.as<float>()) element *= 3;
  program.write_input(q, larger);
  EXPECT_LT(testing::relative_error(program.read_input(q), larger), 0.04);
  EXPECT_LT(testing::relative_error(program.read_input(k), before), 0.04);
  EXPECT_NE(testing::relative_error(program.read_input(k), before), 0) << "its codes are of another scale";
}

TEST(Float8BaseWeights, keep_their_numbers_at_another_level) {
  const Transformer workload(kModel, 2);
  Program merged(workload.build(), open_device("cpu"), options_of(Compile::full, BaseWeights::fp8));
  Program single(workload.build(), open_device("cpu"), options_of(Compile::off, BaseWeights::fp8));
  initialise(merged, workload, 3);
  initialise(single, workload, 4);
  const auto copy = [](const Program& from, Program& to) {
    for (const StatePart& part : from.state_parts()) {
      if (!part.is_packed) continue;
      std::vector<std::byte> bytes(part.bytes());
      from.read_part(part, bytes);
      to.write_part(part, bytes);
    }
  };
  const auto names = packed_tensors(merged.graph());
  copy(merged, single);
  for (const std::string& name : names)
    EXPECT_EQ(testing::relative_error(single.read_input(name), merged.read_input(name)), 0) << name;
  initialise(single, workload, 4);
  copy(single, merged);
  for (const std::string& name : names)
    EXPECT_LT(testing::relative_error(merged.read_input(name), single.read_input(name)), 0.04) << name;
}

// Other devices widen the same bytes to the same numbers.
TEST(Dequantise, is_the_same_on_the_reference_device) {
  for (const BaseWeights format : {BaseWeights::nf4, BaseWeights::nf4_single, BaseWeights::int8}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      std::vector<HostTensor> results;
      for (const std::string device : {"cpu", "reference"}) {
        const std::vector<std::int64_t> rows = {7, 130};
        const std::int64_t columns = 37;
        const std::vector<PackedPart> parts = packed_parts(format, rows, columns);
        Graph graph;
        const Value packed = input(graph, "w", {DType::packed, {packed_bytes(parts)}}, Role::parameter);
        Node& node = graph.node(graph.producer(packed));
        node.attributes.set(kFormat, std::string(name(format)));
        node.attributes.set(kDeclaredDType, "fp32");
        node.attributes.set(kDeclaredShape, std::vector<std::int64_t>{137, 37});
        lay_parts(node, std::vector<std::string>{"a", "b"}, rows);
        node.attributes.set(kRowOrder, std::vector<std::int64_t>{0, 0, 0, 26, 8, 2});
        const Value elements = dequantise(graph, packed, format, rows, columns, dtype);
        graph.node(graph.producer(elements)).attributes.set(kRowOrder, std::vector<std::int64_t>{0, 0, 0, 26, 8, 2});
        graph.add_output({"o", elements});
        Program program(std::move(graph), open_device(device), {});
        program.write_random("a", {.deviation = 0.02}, 1);
        program.write_random("b", {.deviation = 0.5}, 1);
        program.run();
        results.push_back(program.read_output("o"));
        if (dtype == DType::fp32) {
          const HostTensor b = program.read_input("b");
          EXPECT_EQ(std::memcmp(b.data.data(), results.back().data.data() + 7 * 37 * 4, b.data.size()), 0);
        }
      }
      EXPECT_EQ(results[0].data, results[1].data) << name(format) << name(dtype);
    }
  }
}

}  // namespace
}  // namespace ridgepoint
