#include "models/text_workload.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "core/text/throw_error.h"
#include "models/transformer/transformer.h"

namespace ridgepoint {
namespace {

enum class Use : std::uint8_t { learn, write };

// A clause; empty where the input holds tokens.
std::string problem_of_tokens(const Graph& graph, const WorkloadDescription& described, std::string_view name) {
  const std::optional<Value> value = graph.find_input(name);
  if (!value) return fmt::format("its graph has no input '{}' of int64 [batch, context]", name);
  const TensorType wanted{DType::int64, {described.batch, described.context}};
  const TensorType& found = graph.type(*value);
  if (found.dtype == wanted.dtype && found.shape == wanted.shape) return "";
  return fmt::format("its input '{}' is {}, and tokens are {}", name, found.to_string(), wanted.to_string());
}

std::string problem_of_logits(const Graph& graph, const WorkloadDescription& described) {
  const std::optional<Value> logits = graph.find_output("logits");
  if (!logits) return "its graph has no output 'logits' of [batch, context, vocabulary]";
  const Shape& shape = graph.type(*logits).shape;
  const std::int64_t vocabulary = described.model.vocab;
  if (shape.rank() >= 2 && shape[-1] == vocabulary &&
      shape.elements() == described.batch * described.context * vocabulary)
    return "";
  return fmt::format("its output 'logits' is {}, and each token has {} logits", graph.type(*logits).to_string(),
                     vocabulary);
}

std::string problem_of(const Workload& workload, Use use) {
  const WorkloadDescription described = workload.describe();
  const Graph graph = workload.build();
  std::string problem = problem_of_tokens(graph, described, "inputs");
  if (!problem.empty()) return problem;
  if (described.model.vocab <= 0) return "its description has no vocabulary";
  if (use == Use::write) return problem_of_logits(graph, described);
  problem = problem_of_tokens(graph, described, "targets");
  return problem.empty() && !graph.find_loss() ? "its graph has no loss" : problem;
}

void require_text(const Workload& workload, std::string_view who, Use use) {
  if (const TransformerConfig* model = workload.transformer()) {
    if (model->architecture.predicts_next_token()) return;
    throw_error(ErrorKind::usage,
                "{} needs a model that predicts the next token, and this one does not: it needs a decoder; choose "
                "another --model",
                who);
  }
  const std::string problem = problem_of(workload, use);
  if (problem.empty()) return;
  throw_error(ErrorKind::usage,
              "{} needs a language model, and '{}' is none: {}; bench, profile and memory run "
              "it, and docs/model.md says what a workload of text has",
              who, workload.describe().model.name, problem);
}

}  // namespace

void require_learns_text(const Workload& workload, std::string_view who) { require_text(workload, who, Use::learn); }
void require_writes_text(const Workload& workload, std::string_view who) { require_text(workload, who, Use::write); }

}  // namespace ridgepoint
