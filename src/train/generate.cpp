#include "train/generate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "models/text_workload.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint::train {
namespace {

constexpr std::int64_t kShortest = 32;

// Replaces logits and loss by the output "next": the logits after the first row's token at the position of the input
// "last".
void leave_next_token(Graph& graph) {
  const Value logits = *graph.find_output("logits");
  const TensorType type = graph.type(logits);
  const Dim vocabulary = type.shape.dim(-1);
  const Value last = input(graph, "last", {DType::int64, Shape{1}}, Role::data);
  const Value rows = reshape(graph, logits, Shape{type.elements() / vocabulary.size, vocabulary});
  graph.erase_outputs([](const Output& output) { return output.name == "logits" || output.name == "loss"; });
  graph.add_output("next", embedding(graph, rows, last));
}

}  // namespace

std::int64_t Sampler::choose(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto likeliest = std::ranges::max_element(logits);
  if (*likeliest == -kInfinity || !std::ranges::all_of(logits, [](float logit) { return logit < kInfinity; }))
    throw Error("the logits of the next token are not finite");
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

LanguageModel::LanguageModel(RunConfig config, std::int64_t most_tokens, StepWatcher watch)
    : config_(std::move(config)), watch_(std::move(watch)) {
  require_writes_text(*config_.workload, "a text");
  context_ = config_.workload->describe().context;
  if (const TransformerConfig* model = config_.workload->transformer()) model_ = *model;
  if (model_ && why_no_key_cache(*model_).empty()) most_kept_ = std::min(most_tokens, context_);
}

std::unique_ptr<ForwardProgram> LanguageModel::make(TransformerConfig model, std::int64_t context,
                                                    KeyCache cache) const {
  RunConfig config = config_;
  model.context = context;
  config.workload = std::make_shared<const Transformer>(std::move(model), 1, cache);
  return std::make_unique<ForwardProgram>(std::move(config), leave_next_token, watch_);
}

ForwardProgram& LanguageModel::program_for(std::int64_t tokens) {
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(tokens, kShortest))));
  const std::int64_t length = model_ ? std::min(power, context_) : context_;
  std::unique_ptr<ForwardProgram>& forward = programs_[length];
  if (forward != nullptr) return *forward;
  if (model_) {
    forward = make(*model_, length, most_kept_ > 0 ? KeyCache::give : KeyCache::none);
  } else {
    forward = std::make_unique<ForwardProgram>(config_, leave_next_token, watch_);
  }
  return *forward;
}

bool LanguageModel::follows(std::span<const std::int64_t> tokens) const {
  return !known_.empty() && tokens.size() == known_.size() + 1 && std::ssize(tokens) <= most_kept_ &&
         std::ranges::equal(tokens.first(known_.size()), known_);
}

// Takes keys and values from a run of all tokens, whose programs are then not needed.
void LanguageModel::keep_keys() {
  if (one_token_ == nullptr) {
    TransformerConfig model = *model_;
    model.attention = AttentionVariant::composite;  // which takes any mask
    one_token_ = make(std::move(model), most_kept_, KeyCache::keep);
  }
  Program& program = one_token_->program();
  for (const NodeId id : program.graph().inputs(Role::state)) {
    const std::string name = input_name(program.graph().node(id));
    if (!whole_->program().graph().find_output(name)) continue;
    const HostTensor known = convert(whole_->program().read_output(name), DType::fp32);
    HostTensor all(program.graph().type(program.graph().node(id).outputs[0]));
    const std::size_t of_token = all.as<float>().size() / static_cast<std::size_t>(most_kept_);
    std::ranges::copy(known.as<float>().first(known_.size() * of_token), all.as<float>().begin());
    program.write_input(name, all);
  }
  whole_ = nullptr;
  programs_.clear();
}

std::vector<float> LanguageModel::logits_after(std::span<const std::int64_t> tokens) {
  if (tokens.empty()) throw Error("a text begins with a token", ErrorKind::usage);
  const auto most = static_cast<std::size_t>(context_);
  if (tokens.size() > most) tokens = tokens.last(most);
  const bool is_one = follows(tokens);
  if (is_one && whole_ != nullptr) keep_keys();
  ForwardProgram& forward = is_one ? *one_token_ : program_for(std::ssize(tokens));
  Program& program = forward.program();
  const auto write = [&](std::string_view name, std::span<const std::int64_t> values) {
    HostTensor tensor(program.graph().type(*program.graph().find_input(name)));
    std::ranges::copy(values, tensor.as<std::int64_t>().begin());
    program.write_input(name, tensor);
  };
  const std::int64_t last = std::ssize(tokens) - 1, first = 0;
  if (model_ && rotates_by_length(*model_)) {
    TransformerConfig padded = *model_;
    padded.context = program.graph().type(*program.graph().find_input("inputs")).shape[1];
    write_rotary_tables(program, padded, std::ssize(tokens));
  }
  write("inputs", is_one ? tokens.last(1) : tokens);
  write("last", std::span(is_one ? &first : &last, 1));
  if (is_one) write("position", std::span(&last, 1));
  known_.clear();  // where the run fails
  program.run();
  program.synchronize();
  const HostTensor next = convert(program.read_output("next"), DType::fp32);
  if (!is_one) whole_ = &forward;
  if (std::ssize(tokens) < most_kept_) known_.assign(tokens.begin(), tokens.end());
  return {next.as<float>().begin(), next.as<float>().end()};
}

}  // namespace ridgepoint::train
