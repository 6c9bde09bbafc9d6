// verify from the outside: results and weights in files, and their comparison.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/refusals.h"
#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/safetensors.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

TEST(Verify, shows_how_far_the_weights_are_written) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const TemporaryFolder folder;
  const std::string file = folder / "w.safetensors";
  EXPECT_THAT(run_program_on_terminal({"verify", "--device", "cpu", "--layers", "1", "--d-model", "16", "--d-ff", "24",
                                       "--heads", "2", "--vocab", "50", "--save-weights", file}),
              warns("weights of custom  writing"));
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Verify, agrees_with_its_own_results_and_finds_a_change) {
  const TemporaryFolder folder;
  const std::vector<std::string> model = {"--layers", "1",       "--d-model", "16",      "--d-ff",
                                          "24",       "--heads", "2",         "--vocab", "50"};
  const auto verify = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "verify");
    arguments.insert(arguments.end(), model.begin(), model.end());
    return run_program(arguments);
  };
  const std::string weights = folder / "w", tokens = folder / "t", results = folder / "r";
  const ProgramResult made = verify({"--batch", "2", "--context", "8", "--seed", "3", "--optimizer-steps", "2",
                                     "--save-weights", weights, "--save-tokens", tokens, "--dump", results});
  ASSERT_EQ(made.exit_code, 0) << made.error;
  const std::vector<std::string> from_files = {"--weights", weights,     "--tokens", tokens,   "--optimizer-steps",
                                               "2",         "--against", results,    "--rtol", "0",
                                               "--atol",    "0"};
  EXPECT_THAT(verify(from_files),
              prints(AllOf(HasSubstr("grad.layers.0.attn.q_proj.weight"), HasSubstr("No element differs."))));

  std::vector<std::string> fewer_steps = from_files;
  fewer_steps[5] = "1";
  const ProgramResult different = verify(fewer_steps);
  EXPECT_EQ(different.exit_code, 1);
  EXPECT_THAT(different.output, AllOf(HasSubstr("differs most: element ["), HasSubstr("beyond rtol 0, atol 0")));
  EXPECT_THAT(different.error, HasSubstr("'loss.2'"));
}

TEST(Verify, names_a_factor_of_gradients_and_compares_a_file_without_them) {
  const TemporaryFolder folder;
  const std::string right = folder / "r", changed = folder / "c";
  const auto verify = [&](const std::vector<std::string>& more) {
    return run_program(
        with_options({"verify", "--device", "cpu", "--layers", "1", "--d-model", "16", "--d-ff", "24", "--heads", "2",
                      "--vocab", "50", "--context", "8", "--batch", "2", "--optimizer-steps", "0"},
                     more));
  };
  ASSERT_EQ(verify({"--dump", right}).exit_code, 0);
  const SafetensorsFile file(right);
  const auto rewrite = [&](bool with_gradients) {
    std::vector<TensorDeclaration> declarations;
    for (const std::string& name : file.names()) {
      if (with_gradients || !name.starts_with("grad.")) declarations.push_back({name, file.type(name)});
    }
    write_safetensors(changed, declarations, [&](std::size_t i) {
      HostTensor tensor = file.read(declarations[i].name);
      if (!declarations[i].name.starts_with("grad.")) return tensor;
      for (float& x : tensor.as<float>()) x *= 16;
      return tensor;
    });
  };
  rewrite(true);
  EXPECT_THAT(verify({"--against", changed}),
              prints(AllOf(HasSubstr("grad.layers.0.attn.q_proj.weight and 9 more:"),
                           HasSubstr("16 times what it should be (the tokens of a batch)")),
                     1));
  rewrite(false);
  const ProgramResult forward = verify({"--against", changed});
  EXPECT_EQ(forward.exit_code, 0) << forward.error;
  EXPECT_THAT(forward.output, HasSubstr("The file agrees."));
  EXPECT_THAT(forward.error, HasSubstr("has no grad.NAME, so nothing was compared with it"));
}

TEST(Verify, finds_the_same_results_where_attention_is_flash_or_fused) {
  const TemporaryFolder folder;
  const std::string results = folder / "r";
  const auto verify = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"verify", "--device", "cpu", "--model", "tiny", "--context", "48", "--optimizer-steps", "0"});
    return run_program(arguments);
  };
  ASSERT_EQ(verify({"--dump", results}).exit_code, 0);
  for (const auto& [option, value] : {std::pair("--compile", "fuse"), std::pair("--attention", "flash")}) {
    const ProgramResult near = verify({option, value, "--against", results, "--rtol", "1e-5", "--atol", "1e-6"});
    EXPECT_EQ(near.exit_code, 0) << near.output << near.error;
    const ProgramResult exact = verify({option, value, "--against", results, "--rtol", "0", "--atol", "0"});
    EXPECT_EQ(exact.exit_code, 1) << "other kernels round otherwise: were these the same kernels?";
  }
}

// Chunks are summed one after another, so that bits differ; before, verify kept the logits, and there were no chunks.
TEST(Verify, computes_the_loss_in_chunks_as_bench_does) {
  const TemporaryFolder folder;
  const std::string results = folder / "r";
  const auto verify = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"verify", "--device", "cpu", "--model", "tiny", "--context", "48", "--optimizer-steps", "0"});
    return run_program(arguments);
  };
  ASSERT_EQ(verify({"--dump", results}).exit_code, 0);
  const ProgramResult near = verify({"--loss-chunk", "16", "--against", results});
  EXPECT_EQ(near.exit_code, 0) << near.output << near.error;
  EXPECT_EQ(near.error, "");
  EXPECT_EQ(verify({"--loss-chunk", "16", "--against", results, "--rtol", "0", "--atol", "0"}).exit_code, 1);
}

// The gradient of the bias of keys is 0, and what is computed is rounding.
ProgramResult verify_a_step_of_two_devices(const std::string& family) {
  const TemporaryFolder folder;
  const std::string model = (source_folder() / "tests/golden/families" / family / "config.json").string();
  const std::string weights = folder / "w", tokens = folder / "t", results = folder / "r";
  const auto verify = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"verify", "--model", model, "--context", "16", "--batch", "2"});
    return run_program(arguments);
  };
  EXPECT_EQ(verify({"--device", "reference", "--save-weights", weights, "--save-tokens", tokens, "--dump", results})
                .exit_code,
            0);
  return verify({"--device", "cpu", "--weights", weights, "--tokens", tokens, "--against", results});
}

TEST(Verify, agrees_where_a_gradient_is_mathematically_zero) {
  EXPECT_THAT(verify_a_step_of_two_devices("gpt2"),
              warns("parameters whose gradient is 0 but for rounding are not compared"));
}

// In GLM 4, half a head is rotated: the others of a bias of keys have a gradient of 0.
TEST(Verify, agrees_where_elements_of_a_gradient_are_mathematically_zero) {
  EXPECT_THAT(verify_a_step_of_two_devices("glm4"),
              warns("elements of layers.0.attn.k_proj.bias have a gradient that is 0 but for rounding"));
}

TEST(Verify, has_zeros_where_the_parameters_of_an_indexer_have_no_gradient) {
  EXPECT_THAT(verify_a_step_of_two_devices("glm_moe_dsa"), prints("grad.layers.0.attn.indexer.queries.weight"));
}

TEST(Verify, finds_the_same_bits_where_backward_computes_activations_again) {
  const TemporaryFolder folder;
  const std::string results = folder / "r";
  const auto verify = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"verify", "--device", "cpu", "--model", "tiny", "--context", "48"});
    return run_program(arguments);
  };
  ASSERT_EQ(verify({"--dump", results}).exit_code, 0);
  for (const std::string policy : {"selective", "block", "auto"}) {
    const ProgramResult again = verify({"--checkpoint", policy, "--against", results, "--rtol", "0", "--atol", "0"});
    EXPECT_EQ(again.exit_code, 0) << again.output << again.error;
  }
  // A parameter is compared as a whole.
  EXPECT_THAT(verify({"--optimizer", "sgd", "--against", results}).output, HasSubstr("as a whole"));
  EXPECT_THAT(verify({"--checkpoint", "none,block"}), fails(2, "give one value for each option"));
}

TEST(Verify, finds_what_is_no_number) {
  const TemporaryFolder folder;
  const std::string weights = weights_with_nan(folder);
  const auto verify = [&](const std::vector<std::string>& more) {
    return run_program(with_options({"verify", "--device", "cpu", "--layers", "1", "--d-model", "16", "--d-ff", "24",
                                     "--heads", "2", "--vocab", "50", "--context", "8", "--batch", "2"},
                                    more));
  };
  const ProgramResult loss = verify({"--weights", weights});
  EXPECT_EQ(loss.exit_code, 1);
  EXPECT_EQ(loss.output, "step 1 loss NaN\n");
  EXPECT_EQ(loss.error, "ridgepoint: 'loss' is NaN; --detect-anomaly names the first such node\n");
  const ProgramResult found = verify({"--weights", weights, "--detect-anomaly"});
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_THAT(found.error, HasSubstr("anomaly in step 1: the input 'layers.0.ln1.weight' has a NaN at [3]"));
  EXPECT_THAT(output_of(verify({"--detect-anomaly", "--optimizer-steps", "2"})),
              EndsWith("\nNo NaN and no infinity was found.\n"));
}

TEST(Verify, names_every_tensor_that_does_not_belong) {
  const TemporaryFolder folder;
  const std::string weights = folder / "w";
  ASSERT_EQ(run_program({"verify", "--layers", "2", "--d-model", "16", "--d-ff", "24", "--heads", "2", "--vocab", "50",
                         "--save-weights", weights})
                .exit_code,
            0);
  const ProgramResult result = run_program({"verify", "--layers", "1", "--d-model", "16", "--d-ff", "32", "--heads",
                                            "2", "--vocab", "50", "--weights", weights});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("'layers.0.ffn.w1.weight' is fp32[24,16]"));
  EXPECT_THAT(result.error, HasSubstr("'layers.1.ln1.weight' of '" + weights + "' is not a parameter of this model"));
}

TEST(Verify, refuses_files_that_are_not_safetensors) {
  const TemporaryFolder folder;
  write_file(folder / "w", "not a tensor in sight");
  for (const char* option : {"--weights", "--tokens", "--against"}) {
    EXPECT_THAT(run_program({"verify", option, folder / "w"}),
                fails(1, AllOf(StartsWith("ridgepoint: "), HasSubstr((folder / "w").string()))))
        << option;
  }
}

TEST(Verify, refuses_options_at_odds) {
  expect_usage_error({"verify", "--device", "null"}, "computes nothing");
  expect_usage_error({"verify", "--optimizer-steps", "-1"}, "--optimizer-steps");
  expect_usage_error({"verify", "--batch", "1,2"}, "2 configurations");
}

}  // namespace
}  // namespace ridgepoint
