// Compares the toy model under autocast with the published table (fp16) and with PyTorch on the CPU (bf16;
// tools/models/make_toy_golden.py makes the file).
#include "models/toy_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "inspect/precision/errors.h"
#include "support/graphs/training_graph.h"
#include "support/program/build_paths.h"

namespace ridgepoint {
namespace {

using Json = nlohmann::json;

Json golden() {
  std::ifstream file(source_folder() / "tests/golden/data/toy_model/bf16.json");
  return Json::parse(file);
}

HostTensor wave(const Shape& shape, double step, double scale, double offset = 0) {
  HostTensor tensor(TensorType{DType::fp32, shape});
  for (std::size_t i = 0; i < tensor.as<float>().size(); ++i) {
    const auto value = static_cast<float>(std::sin(static_cast<double>(i) * step) * scale);
    tensor.as<float>()[i] = static_cast<float>(offset) + value;
  }
  return tensor;
}

std::string result_of(const TypeTable& table, const std::string& part, const std::string& module,
                      const std::string& op = "") {
  for (const TypeRow& row : table.rows) {
    if (row.part == part && row.module == module && row.op == op) return row.result;
  }
  return "no such row";
}

TypeTable types_under(Precision precision) { return types_of(testing::toy_graph(precision)); }

// parameters fp32, fc1 fp16, relu fp16, layer norm fp32, logits fp16, loss fp32, gradients fp32
TEST(ToyModel, has_the_published_types_under_fp16_and_bf16) {
  for (const Precision precision : {Precision::fp16, Precision::bf16}) {
    const TypeTable table = types_under(precision);
    const std::string low(name(precision));
    EXPECT_EQ(result_of(table, "forward", "fc1", "matmul"), low);
    EXPECT_EQ(result_of(table, "forward", "relu", "relu"), low);
    EXPECT_EQ(result_of(table, "forward", "ln", "layer_norm"), "fp32");
    EXPECT_EQ(result_of(table, "forward", "fc2", "matmul"), low);
    EXPECT_EQ(result_of(table, "loss", "loss", "cross_entropy"), "fp32");
    for (const char* parameter : {"fc1.weight", "ln.weight", "ln.bias", "fc2.weight"}) {
      EXPECT_EQ(result_of(table, "parameter", parameter), "fp32") << parameter;
      EXPECT_EQ(result_of(table, "gradient", parameter), "fp32") << parameter;
    }
  }
}

TEST(ToyModel, has_the_types_of_pytorch_under_bf16) {
  const Json expected = golden();
  const TypeTable table = types_under(Precision::bf16);
  const std::pair<const char*, const char*> ops[] = {
      {"fc1", "matmul"}, {"relu", "relu"}, {"ln", "layer_norm"}, {"fc2", "matmul"}, {"loss", "cross_entropy"}};
  for (const auto& [module, op] : ops) {
    const std::string part = std::string_view(module) == "loss" ? "loss" : "forward";
    EXPECT_EQ(result_of(table, part, module, op), expected["values"][module].get<std::string>()) << module;
  }
  for (const auto& [parameter, dtype] : expected["parameters"].items()) {
    EXPECT_EQ(result_of(table, "parameter", parameter), dtype.get<std::string>()) << parameter;
  }
  for (const auto& [parameter, dtype] : expected["gradients"].items()) {
    EXPECT_EQ(result_of(table, "gradient", parameter), dtype.get<std::string>()) << parameter;
  }
}

TEST(ToyModel, has_the_numbers_of_pytorch_under_bf16) {
  const Json expected = golden();
  ProgramOptions options;
  options.compile = {.mode = Mode::forward_backward, .precision = Precision::bf16, .keep = {.results = true}};
  Program program(build_toy_model({}), open_device("cpu"), options);
  initialise(program, ToyModel(), 0);
  program.write_input("x", wave({16, 20}, 0.31, 1.5));
  program.write_input("fc1.weight", wave({10, 20}, 0.7, 0.4));
  program.write_input("ln.weight", wave({10}, 1.3, 0.2, 1.0));
  program.write_input("ln.bias", wave({10}, 2.1, 0.1));
  program.write_input("fc2.weight", wave({5, 10}, 0.9, 0.5));
  program.run();
  EXPECT_NEAR(program.read_output("loss").as<float>()[0], expected["loss"].get<double>(), 2e-3);
  const HostTensor logits = convert(program.read_output("logits"), DType::fp32);
  for (std::size_t i = 0; i < logits.as<float>().size(); ++i) {
    EXPECT_NEAR(logits.as<float>()[i], expected["logits"][i].get<double>(), 0.02) << i;
  }
  for (const auto& [parameter, norm] : expected["gradient_norms"].items()) {
    double squares = 0;
    const HostTensor gradient = program.read_output("grad." + parameter);
    for (const float element : gradient.as<float>()) squares += std::pow(element, 2);
    EXPECT_NEAR(std::sqrt(squares) / norm.get<double>(), 1.0, 0.01) << parameter;
  }
}

}  // namespace
}  // namespace ridgepoint
