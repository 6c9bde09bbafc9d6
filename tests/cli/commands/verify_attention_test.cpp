// verify --inputs from the outside: the attention of another program, right and with faults.

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/refusals.h"
#include "core/files/temporary_folder.h"
#include "interchange/safetensors.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using Tensors = std::map<std::string, HostTensor>;

HostTensor numbers(const Shape& shape, double phase) {
  HostTensor tensor(TensorType{DType::fp32, shape});
  double at = phase;
  for (float& x : tensor.as<float>()) x = static_cast<float>(2 * std::sin(at += 1.7));
  return tensor;
}

Tensors inputs(const Shape& shape) {
  return {{"q", numbers(shape, 1)}, {"k", numbers(shape, 2)}, {"v", numbers(shape, 3)}, {"do", numbers(shape, 4)}};
}

void write(const std::string& path, const Tensors& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors) declarations.push_back({name, tensor.type});
  write_safetensors(path, declarations, [&](std::size_t i) { return tensors.at(declarations[i].name); });
}

Tensors read(const std::string& path) {
  const SafetensorsFile file(path);
  Tensors tensors;
  for (const std::string& name : file.names()) tensors[name] = file.read(name);
  return tensors;
}

HostTensor times(HostTensor tensor, double factor) {
  for (double& x : tensor.as<double>()) x *= factor;
  return tensor;
}

class VerifyAttention : public ::testing::Test {
 protected:
  // Inputs and results in one file, as a program that is right writes them.
  Tensors right(const Tensors& given, const std::vector<std::string>& more = {"--causal", "true"}) {
    write(folder_ / "in", given);
    const ProgramResult made = run_program(
        with_options({"verify", "--inputs", folder_ / "in", "--dump", folder_ / "all", "--device", "reference"}, more));
    EXPECT_EQ(made.exit_code, 0) << made.error;
    return read(folder_ / "all");
  }

  ProgramResult verify(const Tensors& all, const std::vector<std::string>& more = {"--causal", "true"}) {
    write(folder_ / "all", all);
    return run_program(with_options(
        {"verify", "--inputs", folder_ / "all", "--against", folder_ / "all", "--device", "reference"}, more));
  }

  TemporaryFolder folder_;
};

TEST_F(VerifyAttention, agrees_with_what_is_right_on_every_device_and_in_every_shape) {
  for (const Shape& shape : {Shape{2, 3, 12, 4}, Shape{2, 12, 4}, Shape{12, 4}}) {
    const Tensors all = right(inputs(shape));
    EXPECT_EQ(all.size(), 9U);
    for (const char* device : {"reference", "cpu"}) {
      const ProgramResult result = verify(all, {"--causal", "true", "--device", device});
      EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
      EXPECT_THAT(result.output, HasSubstr("The file agrees."));
      EXPECT_EQ(result.error, "");
    }
  }
  const Tensors window = right(inputs({12, 4}), {"--causal", "true", "--window", "5", "--soft-cap", "3"});
  EXPECT_EQ(verify(window, {"--causal", "true", "--window", "5", "--soft-cap", "3", "--attention", "flash"}).exit_code,
            0);
  EXPECT_THAT(verify(window, {"--causal", "true", "--soft-cap", "3", "--window", "4"}).output,
              HasSubstr("agree with attention with a window of 5 keys."));
}

TEST_F(VerifyAttention, names_a_wrong_scale_and_a_wrong_mask) {
  Tensors given = inputs({2, 12, 4});
  for (float& x : given["q"].as<float>()) x *= 2;
  Tensors unscaled = right(given);
  unscaled["q"] = inputs({2, 12, 4})["q"];
  unscaled["dq"] = times(unscaled["dq"], 2);
  const ProgramResult scale = verify(unscaled);
  EXPECT_EQ(scale.exit_code, 1);
  EXPECT_THAT(scale.output, AllOf(HasSubstr("dk, dq, dv, lse and o agree with attention whose scores are not scaled by "
                                            "1/sqrt(4)."),
                                  Not(HasSubstr("The file agrees"))));
  EXPECT_THAT(verify(right(inputs({2, 12, 4}), {})),
              prints("dk, dq, dv, lse and o agree with attention without the causal mask.", 1));
  EXPECT_THAT(verify(right(inputs({2, 12, 4})), {}).output,
              HasSubstr("agree with causal attention; add --causal true"));
}

TEST_F(VerifyAttention, names_one_wrong_element_and_a_factor_of_one_tensor) {
  Tensors all = right(inputs({2, 12, 4}));
  all["o"].as<double>()[48 + 5 * 4 + 1] += 0.5;
  all["dv"] = times(all["dv"], 3);
  EXPECT_THAT(verify(all), prints(AllOf(HasSubstr("o: 1 of 96 elements is beyond tolerance, at [1, 5, 1]."),
                                        HasSubstr("dv: 3 times what it should be; divided by that, it agrees."),
                                        HasSubstr("in the file and"), Not(HasSubstr("agree with attention"))),
                                  1));
}

TEST_F(VerifyAttention, says_that_no_cause_is_looked_for_in_heads_that_are_too_large) {
  const Tensors given = {{"q", numbers({16, 64}, 1)}, {"k", numbers({65600, 64}, 2)}, {"v", numbers({65600, 64}, 3)}};
  Tensors all = right(given, {"--device", "cpu"});
  all["o"].as<float>()[70] += 0.5F;
  EXPECT_THAT(verify(all, {"--device", "cpu"}).output,
              AllOf(HasSubstr("beyond tolerance, at [1, 6]."), HasSubstr("No cause was looked for"),
                    HasSubstr("67174400 products")));
}

TEST_F(VerifyAttention, says_what_to_do_where_tensors_are_missing_or_have_another_shape) {
  const Tensors all = right(inputs({2, 3, 12, 4}));
  const auto without = [&](const std::vector<std::string>& names) {
    Tensors fewer = all;
    for (const std::string& name : names) fewer.erase(name);
    return fewer;
  };
  Tensors renamed = without({"dk"});
  renamed["grad_k"] = all.at("dk");
  EXPECT_THAT(verify(renamed), fails(1, AllOf(HasSubstr("'dk' is not in '"), HasSubstr("available: "),
                                              HasSubstr("grad_k"), HasSubstr("'grad_k' of '"))));
  EXPECT_THAT(verify(without({"dq", "dk", "dv", "lse"})),
              warns(AllOf(HasSubstr("has no dq, dk and dv, so nothing was compared with"),
                          HasSubstr("has no lse, so nothing was compared with"))));
  EXPECT_EQ(verify(without({"do", "dq", "dk", "dv"})).exit_code, 0);
  EXPECT_THAT(verify(without({"do"})).error,
              HasSubstr("the inputs have no 'do', the gradient of o that it follows from"));
  EXPECT_THAT(verify(without({"k"})).error, HasSubstr("'k'"));

  Tensors turned = all;
  turned["o"].type.shape = {2, 12, 3, 4};
  EXPECT_THAT(verify(turned).error, HasSubstr("its axes stand in another order: transpose it to [2,3,12,4]"));
  Tensors narrow = all;
  narrow["k"].type.shape = {2, 3, 6, 8};
  EXPECT_THAT(verify(narrow).error, HasSubstr("'k' is [2,3,6,8] in"));
}

TEST_F(VerifyAttention, says_where_a_tensor_has_no_number) {
  Tensors all = right(inputs({2, 12, 4}));
  all["o"].as<double>()[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(verify(all), prints("o: 1 of 96 elements is NaN or infinite in the file, the first at [0,1,3].", 1));
  all["q"].as<float>()[4] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(verify(all).error, HasSubstr("'q' has a NaN or an infinity at [0,1,0]"));
}

TEST_F(VerifyAttention, holds_results_of_16_bits_to_their_digits) {
  Tensors all = right(inputs({2, 12, 4}));
  for (auto& [name, tensor] : all)
    tensor = convert(tensor, tensor.type.dtype == DType::fp64 ? DType::bf16 : DType::fp32);
  EXPECT_EQ(verify(all).exit_code, 0);
  EXPECT_EQ(verify(all, {"--causal", "true", "--rtol", "1e-4", "--atol", "1e-5"}).exit_code, 1);
}

TEST_F(VerifyAttention, refuses_what_it_would_ignore) {
  write(folder_ / "in", inputs({12, 4}));
  const std::string in = folder_ / "in";
  expect_usage_error({"verify", "--inputs", in, "--against", in, "--batch", "2"}, "--batch has no effect on the call");
  expect_usage_error({"verify", "--inputs", in, "--against", in, "--tokens", in}, "--tokens has no effect on the call");
  expect_usage_error({"verify", "--inputs", in, "--against", in, "--workload", "toy"}, "--workload toy: --inputs has");
  expect_usage_error({"verify", "--inputs", in}, "--inputs: add --against FILE");
  expect_usage_error({"verify", "--causal", "true"}, "--causal is of one call of attention; add --inputs");
  expect_usage_error({"verify", "--workload", "attention"}, "add --inputs FILE, which has its q, k and v");
}

}  // namespace
}  // namespace ridgepoint
