#include "train/generate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"

namespace ridgepoint::train {
namespace {

constexpr std::int64_t kShortest = 32;

// Of a workload of batch 1, the one output "next": the logits behind the token at the position of the input "last".
void leave_next_token(Graph& graph) {
  const Value logits = *graph.find_output("logits");
  const Shape& shape = graph.type(logits).shape;
  const Value last = input(graph, "last", {DType::int64, Shape{1}}, Role::data);
  const Value rows = reshape(graph, logits, Shape{shape.dim(-2), shape.dim(-1)});
  graph.erase_outputs([](const Output&) { return true; });
  graph.add_output("next", embedding(graph, rows, last));
}

}  // namespace

std::int64_t Sampler::choose(std::span<const float> logits) {
  const auto likeliest = std::ranges::max_element(logits);
  if (options_.temperature <= 0) return likeliest - logits.begin();
  std::vector<double> probabilities(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    probabilities[i] =
        std::exp((static_cast<double>(logits[i]) - static_cast<double>(*likeliest)) / options_.temperature);
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return probabilities[i]; });
  double kept = 0;
  std::size_t count = 0;
  while (count < order.size() && (count == 0 || kept < options_.top_p * sum)) kept += probabilities[order[count++]];
  double left = static_cast<double>(random_() >> 11U) * 0x1p-53 * kept;
  for (std::size_t i = 0; i < count; ++i) {
    left -= probabilities[order[i]];
    if (left < 0) return static_cast<std::int64_t>(order[i]);
  }
  return static_cast<std::int64_t>(order[count - 1]);
}

LanguageModel::LanguageModel(RunConfig config, WorkloadOf workload_of, std::int64_t context, StepWatcher watch)
    : config_(std::move(config)), workload_of_(std::move(workload_of)), context_(context), watch_(std::move(watch)) {}

Program& LanguageModel::program_for(std::int64_t tokens) {
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(tokens, kShortest))));
  const std::int64_t length = std::min(power, context_);
  std::unique_ptr<ForwardProgram>& forward = programs_[length];
  if (forward == nullptr) {
    RunConfig config = config_;
    config.workload = workload_of_(length);
    forward = std::make_unique<ForwardProgram>(std::move(config), leave_next_token, watch_);
  }
  return forward->program();
}

std::vector<float> LanguageModel::logits_after(std::span<const std::int64_t> tokens) {
  if (tokens.empty()) throw Error("a text begins with a token", ErrorKind::usage);
  const auto most = static_cast<std::size_t>(context_);
  if (tokens.size() > most) tokens = tokens.last(most);
  Program& program = program_for(std::ssize(tokens));
  HostTensor inputs(program.graph().type(*program.graph().find_input("inputs")));
  std::ranges::copy(tokens, inputs.as<std::int64_t>().begin());
  HostTensor last({DType::int64, Shape{1}});
  last.as<std::int64_t>()[0] = std::ssize(tokens) - 1;
  program.write_input("inputs", inputs);
  program.write_input("last", last);
  program.run();
  program.synchronize();
  const HostTensor next = convert(program.read_output("next"), DType::fp32);
  return {next.as<float>().begin(), next.as<float>().end()};
}

}  // namespace ridgepoint::train
