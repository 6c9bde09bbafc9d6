// The whole model against PyTorch: tests/golden/data has weights, tokens and PyTorch's results in double
// (tools/models/make_golden.py). Logits, loss, every gradient, and the parameters after three AdamW steps must agree to
// a relative L2 error below 1e-5.

#include <cmath>
#include <filesystem>
#include <string>

#include "cli/application.h"
#include "core/files/temporary_folder.h"
#include "interchange/safetensors.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/runtime/program.h"
#include "run/session/steps/compare_tensors.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint {
namespace {

constexpr double kTolerance = 1e-5;
// The reason for which update_tolerance() allows an update a larger error.
constexpr double kUpdateTolerance = 1e-2;

std::filesystem::path golden_file(const std::string& golden, const std::string& file) {
  return source_folder() / "tests/golden/data" / golden / (file + ".safetensors");
}

// ||actual - expected|| / ||expected||, and infinity if 0 is expected and the actual value is not 0.
double relative_error(const HostTensor& actual, const HostTensor& expected) {
  const std::span<const float> a = actual.as<float>();
  const std::span<const float> e = expected.as<float>();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    difference += std::pow(double{a[i]} - double{e[i]}, 2);
    norm += std::pow(double{e[i]}, 2);
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

struct GoldenCase {
  std::string golden;
  std::string device;
  Compile level = Compile::off;
};

// The settings in the golden file.
struct Configuration {
  TransformerConfig model;
  std::int64_t batch = 0;
  int steps = 0;
};

Configuration read_configuration(const SafetensorsFile& expected) {
  const auto number = [&](std::string_view key) -> std::int64_t {
    for (const auto& [name, text] : expected.header().metadata) {
      if (name == key) return std::stoll(text);
    }
    throw std::runtime_error("the golden file has no " + std::string(key));
  };
  TransformerConfig model{"golden",       number("vocab"),  number("context"), number("d_model"),
                          number("d_ff"), number("layers"), number("heads")};
  return {model, number("batch"), static_cast<int>(number("optimizer_steps"))};
}

void expect_close(const HostTensor& actual, const SafetensorsFile& expected, const std::string& name) {
  const HostTensor wanted = expected.read(name);
  ASSERT_EQ(actual.type, wanted.type) << name;
  EXPECT_LT(relative_error(actual, wanted), kTolerance) << name;
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, the_model_agrees_with_pytorch) {
  const std::string& golden = GetParam().golden;
  const SafetensorsFile weights(golden_file(golden, "weights"));
  const SafetensorsFile tokens(golden_file(golden, "tokens"));
  const SafetensorsFile expected(golden_file(golden, "expected"));
  const auto [model, batch, steps] = read_configuration(expected);

  Program program(build_transformer(model, batch), open_device(GetParam().device),
                  {.compile = {.mode = Mode::step,
                               .level = GetParam().level,
                               .keep = {.results = true, .gradients = true},
                               .verify = true}});
  Transformer(model, batch).write_data(program, 0);  // the rotary tables
  for (const std::string& name : weights.names()) program.write_input(name, weights.read(name));
  for (const std::string& name : tokens.names()) program.write_input(name, tokens.read(name));

  program.run();
  expect_close(program.read_output("logits"), expected, "logits");
  expect_close(program.read_output("loss"), expected, "loss");
  for (const std::string& name : weights.names())
    expect_close(program.read_output("grad." + name), expected, "grad." + name);
  for (int step = 1; step < steps; ++step) program.run();
  for (const std::string& name : weights.names()) {
    expect_close(program.read_input(name), expected, "param." + name);
    const HostTensor before = weights.read(name);
    const HostTensor ours = update_of(program.read_input(name), before);
    const HostTensor theirs = update_of(expected.read("param." + name), before);
    EXPECT_LT(compare_tensors(ours, theirs, {}).relative_l2, kUpdateTolerance) << name;
  }
  EXPECT_EQ(expected.names().size(), 2 + 2 * weights.names().size());
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Golden,
                         ::testing::Values(GoldenCase{"odd_sizes", "cpu"}, GoldenCase{"odd_sizes", "reference"},
                                           GoldenCase{"narrow", "cpu"}, GoldenCase{"narrow", "reference"},
                                           GoldenCase{"odd_sizes", "cpu", Compile::full},
                                           GoldenCase{"narrow", "cpu", Compile::full}),
                         [](const auto& test) {
                           const GoldenCase& golden = test.param;
                           const std::string compiled = golden.level == Compile::off ? "" : "_compiled";
                           return golden.golden + "_on_" + golden.device + compiled;
                         });

// The same through the command-line program.
struct Outcome {
  int exit_code = 0;
  std::string output;
};

Outcome run_verify(const std::string& golden, const std::filesystem::path& expected_file) {
  const Configuration configuration = read_configuration(SafetensorsFile(golden_file(golden, "expected")));
  const TransformerConfig& model = configuration.model;
  const std::vector<std::string> arguments = {"ridgepoint",
                                              "verify",
                                              "--layers",
                                              std::to_string(model.layers),
                                              "--d-model",
                                              std::to_string(model.d_model),
                                              "--d-ff",
                                              std::to_string(model.d_ff),
                                              "--heads",
                                              std::to_string(model.heads),
                                              "--vocab",
                                              std::to_string(model.vocab),
                                              "--context",
                                              std::to_string(model.context),
                                              "--batch",
                                              std::to_string(configuration.batch),
                                              "--optimizer-steps",
                                              std::to_string(configuration.steps),
                                              "--weights",
                                              golden_file(golden, "weights").string(),
                                              "--tokens",
                                              golden_file(golden, "tokens").string(),
                                              "--against",
                                              expected_file.string()};
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int exit_code = cli::run_application(static_cast<int>(argv.size()), argv.data());
  std::string output = ::testing::internal::GetCapturedStdout();
  return {exit_code, output + ::testing::internal::GetCapturedStderr()};
}

TEST(GoldenVerify, accepts_what_pytorch_computed) {
  for (const std::string golden : {"odd_sizes", "narrow"}) {
    const Outcome outcome = run_verify(golden, golden_file(golden, "expected"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
}

TEST(GoldenVerify, names_the_one_tensor_that_differs) {
  const TemporaryFolder folder;
  const SafetensorsFile expected(golden_file("odd_sizes", "expected"));
  const std::string perturbed = "grad.layers.1.ffn.w2.weight";
  std::vector<TensorDeclaration> declarations;
  for (const std::string& name : expected.names()) declarations.push_back({name, expected.type(name)});
  write_safetensors(folder / "expected", declarations, [&](std::size_t i) {
    HostTensor tensor = expected.read(declarations[i].name);
    if (declarations[i].name == perturbed) tensor.as<float>()[7] += 1.0f;
    return tensor;
  });
  const Outcome outcome = run_verify("odd_sizes", folder / "expected");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr(perturbed + " differs most: element [0,7]"));
}

}  // namespace
}  // namespace ridgepoint
