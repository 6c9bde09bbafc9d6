// A workload of another program learns text, and text is written with it.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/application.h"
#include "cli/terminal/host.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "core/text/json.h"
#include "models/text_workload.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// The logits of a token depend on that token alone: a table times a matrix.
class Pairs : public Workload {
 public:
  explicit Pairs(WorkloadSettings settings, std::string lacks = "")
      : settings_(std::move(settings)), lacks_(std::move(lacks)) {}

  WorkloadDescription describe() const override {
    return {.model = {.name = "pairs", .d_model = width(), .vocab = lacks_ == "vocabulary" ? 0 : vocabulary()},
            .batch = settings_.batch,
            .context = settings_.context};
  }
  Graph build(const StopPoint&) const override {
    Graph graph;
    const Value table = input(graph, "table", {DType::fp32, {vocabulary(), width()}}, Role::parameter);
    const Value head = input(graph, "head", {DType::fp32, {width(), vocabulary()}}, Role::parameter);
    const Shape tokens = {settings_.batch, settings_.context};
    const Value inputs = input(graph, lacks_ == "inputs" ? "ids" : "inputs", {DType::int64, tokens}, Role::data);
    const std::int64_t rows = tokens.elements();
    const Value hidden = reshape(graph, embedding(graph, table, inputs), {rows, width()});
    const Value logits = matmul(graph, hidden, head);
    if (lacks_ != "logits") graph.add_output("logits", logits);
    graph.set_phase(Phase::loss);
    const Value targets =
        input(graph, "targets", {DType::int64, lacks_ == "targets" ? Shape{rows} : tokens}, Role::data);
    const Value losses = cross_entropy(graph, logits, reshape(graph, targets, {rows})).first;
    const Value loss = scale(graph, reduce_sum(graph, losses, {0}), 1.0 / static_cast<double>(rows));
    if (lacks_ != "loss") graph.add_output("loss", loss, OutputRole::loss);
    return graph;
  }

 private:
  std::int64_t vocabulary() const { return settings_.vocab.value_or(10); }
  std::int64_t width() const { return settings_.d_model.value_or(8); }

  WorkloadSettings settings_;
  std::string lacks_;
};

void register_pairs() {
  static const bool once = [] {
    register_workload({.name = "pairs",
                       .settings = {"batch", "context", "vocab", "d-model"},
                       .make = [](const WorkloadSettings& settings) { return std::make_shared<Pairs>(settings); }});
    return true;
  }();
  EXPECT_TRUE(once);
}

struct Ran {
  cli::CommandEnd end;
  std::string output;
};
Ran run(std::vector<std::string> words, const std::vector<std::string>& more = {}) {
  words.insert(words.end(), more.begin(), more.end());
  cli::Host host;
  const cli::CommandEnd end = cli::run_within(host, words);
  return {end, host.output};
}

class OwnWorkload : public ::testing::Test {
 protected:
  OwnWorkload() {
    register_pairs();
    std::string text;
    for (int i = 0; i < 400; ++i) text += "abcd";
    write_file(text_, text);
    train_ = {"train", "--workload", "pairs", "--data",          text_, "--device", "cpu", "--batch", "2", "--context",
              "16",    "--d-model",  "16",    "--learning-rate", "0.1", "--format", "json"};
  }

  TemporaryFolder folder_;
  std::string text_ = (folder_ / "text.txt").string(), saved_ = (folder_ / "run").string();
  std::vector<std::string> train_;
};

TEST_F(OwnWorkload, learns_text_and_writes_it) {
  const Ran first = run(train_, {"--iterations", "30", "--save", saved_});
  ASSERT_EQ(first.end.exit_code, 0) << first.end.problem;
  const Json steps = parse_json(first.output);
  EXPECT_GT(steps.front().at("loss"), 4) << "near log(256)";
  EXPECT_LT(steps.back().at("loss"), 0.5) << "a letter gives the next one";
  const Ran more = run(train_, {"--iterations", "32", "--resume", saved_, "--validation-share", "0.2"});
  EXPECT_EQ(more.end.exit_code, 0) << more.end.problem;
  EXPECT_EQ(parse_json(more.output).front().at("step"), 31);
  const std::vector<std::string> sample = {"sample",   "--checkpoint", saved_,          "--prompt", "c",
                                           "--device", "cpu",          "--temperature", "0"};
  const Ran written = run(sample, {"--tokens", "20"});  // more than the context
  EXPECT_EQ(written.end.exit_code, 0) << written.end.problem;
  EXPECT_EQ(written.output, "cdabcdabcdabcdabcdabc\n");
}

TEST_F(OwnWorkload, is_verified_and_has_a_curve_in_each_type) {
  const Ran again = run(train_, {"--iterations", "4", "--verify-resume"});
  EXPECT_EQ(again.end.exit_code, 0) << again.end.problem << again.output;
  const Ran curves = run({"precision", "--workload", "pairs", "--loss-curve", text_, "--vocab", "256", "--context",
                          "16", "--train-steps", "3", "--device", "cpu", "--dtype", "fp32,bf16", "--format", "json"});
  EXPECT_EQ(curves.end.exit_code, 0) << curves.end.problem;
  const Ran verified = run({"verify", "--workload", "pairs", "--device", "cpu", "--context", "16"});
  EXPECT_EQ(verified.end.exit_code, 0) << verified.end.problem;
}

TEST_F(OwnWorkload, refuses_what_it_lacks) {
  EXPECT_THAT(run(train_, {"--vocab", "64"}).end.problem, HasSubstr("raise --vocab"));
  EXPECT_THAT(run(train_, {"--layers", "2"}).end.problem, HasSubstr("--layers: the workload 'pairs' has --batch"));
  EXPECT_THAT(run(train_, {"--documents", "apart"}).end.problem, HasSubstr("the loss of the workload 'pairs' has"));
  ASSERT_EQ(run(train_, {"--iterations", "1", "--save", saved_}).end.exit_code, 0);
  EXPECT_THAT(run({"train", "--data", text_, "--device", "cpu", "--model", "tiny", "--resume", saved_}).end.problem,
              HasSubstr("of a run with workload \"pairs\", and this one has \"transformer\""));
}

TEST(TextWorkload, says_what_is_missing) {
  const WorkloadSettings settings{.batch = 2, .context = 4};
  const auto lacking = [&](const char* part) { return Pairs(settings, part); };
  require_learns_text(lacking("logits"), "train");
  require_writes_text(lacking("loss"), "sample");
  const auto expect = [&](const char* part, const char* problem) {
    const auto message =
        ThrowsMessage<Error>(AllOf(HasSubstr("needs a language model, and 'pairs' is none: "), HasSubstr(problem)));
    if (std::string_view(part) != "logits") {
      EXPECT_THAT([&] { require_learns_text(lacking(part), "train"); }, message);
    } else {
      EXPECT_THAT([&] { require_writes_text(lacking(part), "sample"); }, message);
    }
  };
  expect("inputs", "its graph has no input 'inputs' of int64 [batch, context]");
  expect("targets", "its input 'targets' is int64[8], and tokens are int64[2,4]");
  expect("loss", "its graph has no loss");
  expect("vocabulary", "its description has no vocabulary");
  expect("logits", "its graph has no output 'logits' of [batch, context, vocabulary]");
}

}  // namespace
}  // namespace ridgepoint
