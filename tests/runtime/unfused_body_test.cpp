// The body of a fused node op by op agrees with its definition, whatever the strides of the operands.
#include "runtime/execution/unfused_body.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "models/transformer/transformer.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/run_by_definition.h"

namespace ridgepoint {
namespace {

using testing::Tensors;

Tensors random_operands(const Graph& graph, std::mt19937& random) {
  Tensors tensors;
  for (const NodeId id : graph.inputs()) {
    HostTensor tensor({DType::fp64, graph.type(graph.node(id).outputs[0]).shape});
    for (double& element : tensor.as<double>()) element = std::uniform_real_distribution(0.25, 1.0)(random);
    tensors.emplace(input_name(graph.node(id)), std::move(tensor));
  }
  return testing::converted_inputs(tensors, graph);
}

// An operand as it lies in memory.
struct Stored {
  TensorLayout layout;
  std::vector<std::byte> bytes;
};

Stored dense(const HostTensor& tensor) { return {dense_layout(tensor.type), tensor.data}; }

// The layout of a matrix with its dimensions swapped in memory.
TensorLayout column_major(TensorLayout matrix) {
  matrix.strides[0] = 1;
  matrix.strides[1] = matrix.shape[0];
  return matrix;
}

Stored column_major(const HostTensor& tensor) {
  Stored stored = dense(tensor);
  const Shape& shape = tensor.type.shape;
  const std::size_t size = size_bytes(tensor.type.dtype);
  const std::int64_t rows = shape[0], columns = shape[1];
  stored.layout = column_major(stored.layout);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const auto to = static_cast<std::size_t>(i % columns * rows + i / columns);
    std::copy_n(tensor.data.begin() + i * static_cast<std::int64_t>(size), size,
                stored.bytes.begin() + static_cast<std::ptrdiff_t>(to * size));
  }
  return stored;
}

std::vector<TensorLayout> dense_results(const FusedBody& body) {
  std::vector<TensorLayout> layouts;
  for (const Output& output : body.graph.outputs()) layouts.push_back(dense_layout(body.graph.type(output.value)));
  return layouts;
}

// Runs a body whose operands and results are stored like that. A result holds its bytes in the order of memory.
Tensors run_unfused(const FusedBody& body, const std::vector<Stored>& operands,
                    const std::vector<TensorLayout>& results_in_memory) {
  const std::shared_ptr<Device> device = open_device("reference");
  std::vector<TensorLayout> layouts;
  for (const Stored& stored : operands) layouts.push_back(stored.layout);
  const auto make_kernel = [&](const KernelSpec& spec) { return device->make_kernel(spec); };
  UnfusedBody unfused(body, layouts, results_in_memory, make_kernel);
  unfused.prepare();
  std::vector<void*> inputs;
  for (const Stored& stored : operands)
    inputs.push_back(stored.layout.immediate ? nullptr : const_cast<std::byte*>(stored.bytes.data()));
  Tensors results;
  std::vector<void*> outputs;
  for (const Output& output : body.graph.outputs()) {
    HostTensor& tensor = results.emplace(output.name, HostTensor(body.graph.type(output.value))).first->second;
    outputs.push_back(tensor.data.data());
  }
  std::vector<std::byte> workspace(unfused.workspace_bytes());
  unfused.launch({inputs.data(), outputs.data(), workspace.data()});
  return results;
}

Tensors run_unfused(const FusedBody& body, const std::vector<Stored>& operands) {
  return run_unfused(body, operands, dense_results(body));
}

void expect_agreement(const Tensors& found, const Tensors& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_EQ(testing::relative_error(found.at(name), tensor), 0) << what << " output " << name;
}

TEST(UnfusedBody, agrees_with_every_fused_node_of_a_model) {
  const TransformerConfig model{"custom", 50, 8, 16, 24, 1, 2};
  const Graph graph = compile(Transformer(model, 2).build(), *open_device("cpu"),
                              {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::fuse});
  std::mt19937 random{3};
  int bodies = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.body == nullptr) continue;
    const Tensors inputs = random_operands(node.body->graph, random);
    std::vector<Stored> operands;
    for (std::size_t i = 0; i < inputs.size(); ++i) operands.push_back(dense(inputs.at(std::to_string(i))));
    expect_agreement(run_unfused(*node.body, operands), testing::run_by_definition(node.body->graph, inputs),
                     node.body->text);
    ++bodies;
  }
  EXPECT_GT(bodies, 5);
}

// Two results; the second is a view, and the sum is read through a reshape of an operand.
std::shared_ptr<const FusedBody> body_with_views() {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {3, 4}}, Role::data);
  const Value y = input(body, "1", {DType::fp32, {3, 4}}, Role::data);
  const Value sum = add(body, reshape(body, x, Shape{2, 6}), reshape(body, y, Shape{2, 6}));
  const Value total = reduce_sum(body, sum, {1}, true);
  body.add_output("0", mul(body, sum, broadcast(body, total, Shape{2, 6})));
  body.add_output("1", transpose(body, exp(body, y), {1, 0}));
  return std::make_shared<const FusedBody>(std::move(body));
}

TEST(UnfusedBody, reads_operands_of_any_strides_and_writes_dense_results) {
  const std::shared_ptr<const FusedBody> body = body_with_views();
  std::mt19937 random{5};
  const Tensors inputs = random_operands(body->graph, random);
  const Tensors expected = testing::run_by_definition(body->graph, inputs);
  const HostTensor &x = inputs.at("0"), &y = inputs.at("1");
  expect_agreement(run_unfused(*body, {dense(x), dense(y)}), expected, "dense");
  expect_agreement(run_unfused(*body, {column_major(x), dense(y)}), expected, "first strided");
  expect_agreement(run_unfused(*body, {column_major(x), column_major(y)}), expected, "both strided");
}

TEST(UnfusedBody, writes_results_of_any_strides) {
  const std::shared_ptr<const FusedBody> body = body_with_views();
  std::mt19937 random{11};
  const Tensors inputs = random_operands(body->graph, random);
  Tensors expected = testing::run_by_definition(body->graph, inputs);
  std::vector<TensorLayout> layouts = dense_results(*body);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    layouts[i] = column_major(layouts[i]);
    HostTensor& tensor = expected.at(std::to_string(i));
    tensor.data = column_major(tensor).bytes;
  }
  expect_agreement(run_unfused(*body, {dense(inputs.at("0")), column_major(inputs.at("1"))}, layouts), expected,
                   "results strided");
}

TEST(UnfusedBody, takes_immediate_operands) {
  const std::shared_ptr<const FusedBody> body = body_with_views();
  std::mt19937 random{7};
  Tensors inputs = random_operands(body->graph, random);
  std::ranges::fill(inputs.at("1").as<float>(), 0.5F);
  Stored immediate{dense_layout(inputs.at("1").type), {}};
  immediate.layout.strides = {};
  immediate.layout.immediate = 0.5;
  expect_agreement(run_unfused(*body, {dense(inputs.at("0")), immediate}),
                   testing::run_by_definition(body->graph, inputs), "immediate");
}

TEST(UnfusedBody, takes_memory_again_that_no_later_op_reads) {
  Graph body;
  Value x = input(body, "0", {DType::fp32, {1024}}, Role::data);
  for (int i = 0; i < 20; ++i) x = exp(body, neg(body, x));
  body.add_output("0", x);
  const FusedBody chain(std::move(body));
  const std::vector<TensorLayout> layouts = {dense_layout({DType::fp32, {1024}})};
  const std::shared_ptr<Device> device = open_device("reference");
  const auto make_kernel = [&](const KernelSpec& spec) { return device->make_kernel(spec); };
  UnfusedBody unfused(chain, layouts, dense_results(chain), make_kernel);
  unfused.prepare();
  EXPECT_EQ(unfused.workspace_bytes(), 2 * 1024 * sizeof(float));
}

}  // namespace
}  // namespace ridgepoint
