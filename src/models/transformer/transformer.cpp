#include "models/transformer/transformer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <span>

#include "core/random/random_values.h"
#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr double kEmbeddingDeviation = 0.02;  // the `initializer_range` of most published models

constexpr auto kNorms = enum_names<Norm>("rms_norm", "layer_norm");
constexpr auto kPlacements = enum_names<NormPlacement>("before", "after", "both", "of_sums");
constexpr auto kActivations = enum_names<Activation>("silu", "gelu", "gelu_tanh", "relu", "relu_squared");
constexpr auto kPositions = enum_names<Positions>("rotary", "learned", "linear_bias");
constexpr auto kBlocks = enum_names<BlockOrder>("in_turn", "side_by_side", "side_by_side_one_norm");
constexpr auto kProjectionNorms =
    enum_names<ProjectionNorm>("none", "per_head", "whole", "rotated", "unweighted", "each_head");
constexpr auto kScalings =
    enum_names<RotaryScaling>("none", "linear", "llama3", "yarn", "longrope", "dynamic", "proportional");

// Llama 3.1's: waves longer than the original context over `low` are stretched by the factor, those shorter than it
// over `high` are not, and between them the frequency is interpolated.
double llama3_frequency(const Rotary& rotary, double frequency) {
  const double waves = static_cast<double>(rotary.original_context) * frequency / (2 * std::numbers::pi);
  const double smooth =
      (waves - rotary.low_frequency_factor) / (rotary.high_frequency_factor - rotary.low_frequency_factor);
  const double share = std::clamp(smooth, 0.0, 1.0);
  return (1 - share) * frequency / rotary.factor + share * frequency;
}

// The element whose wave turns so often over the original context.
double element_of(const Rotary& rotary, std::int64_t width, double turns) {
  const double length = static_cast<double>(rotary.original_context) / (turns * 2 * std::numbers::pi);
  return static_cast<double>(width) * std::log(length) / (2 * std::log(rotary.theta));
}

// YaRN's (Peng et al. 2023, arXiv:2309.00071, section 3.2): elements before `low` are kept, those after `high` divided
// by the factor, and between them the frequency is interpolated.
double yarn_frequency(const Rotary& rotary, std::int64_t width, std::int64_t element, double frequency) {
  double low = element_of(rotary, width, rotary.fast_turns);
  double high = element_of(rotary, width, rotary.slow_turns);
  if (rotary.whole_steps) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(width - 1));
  if (low == high) high += 0.001;
  const double share = std::clamp((static_cast<double>(element) - low) / (high - low), 0.0, 1.0);
  return (1 - share) * frequency + share * frequency / rotary.factor;
}

// Beyond the original context theta grows with the length.
double theta_of(const Rotary& rotary, std::int64_t width, std::int64_t context) {
  if (rotary.scaling != RotaryScaling::dynamic || context <= rotary.original_context) return rotary.theta;
  const double times = static_cast<double>(context) / static_cast<double>(rotary.original_context);
  const auto elements = static_cast<double>(width);
  return rotary.theta * std::pow(rotary.factor * times - (rotary.factor - 1), elements / (elements - 2));
}

// For a sequence of `length`, with a row for each position of the context.
void write_tables(Program& program, const std::string& name, const TransformerConfig& config, const Rotary& rotary,
                  std::int64_t head_size, std::int64_t length) {
  const std::vector<double> frequencies =
      rotary_frequencies(rotary, rotated_width(rotary, head_size), length, head_size);
  const TensorType type{DType::fp32, {config.context, static_cast<std::int64_t>(frequencies.size())}};
  HostTensor cosines(type);
  HostTensor sines(type);
  const bool is_long = rotary.long_amplitude > 0 && length > rotary.original_context;
  const double amplitude = is_long ? rotary.long_amplitude : rotary.amplitude;
  for (std::int64_t position = 0; position < config.context; ++position) {
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      const std::size_t at = static_cast<std::size_t>(position) * frequencies.size() + i;
      cosines.as<float>()[at] = static_cast<float>(amplitude * std::cos(angle));
      sines.as<float>()[at] = static_cast<float>(amplitude * std::sin(angle));
    }
  }
  program.write_input(name + ".cosines", cosines);
  program.write_input(name + ".sines", sines);
}

void write_query_growth(Program& program, const TransformerConfig& config) {
  const QueryGrowth& growth = config.architecture.query_growth;
  HostTensor factors(TensorType{DType::fp32, {config.context, 1, 1}});
  for (std::int64_t position = 0; position < config.context; ++position) {
    const std::int64_t lengths = (position + growth.offset) / growth.length;
    factors.as<float>()[static_cast<std::size_t>(position)] =
        static_cast<float>(1 + growth.strength * std::log(1 + static_cast<double>(lengths)));
  }
  program.write_input(std::string(kQueryGrowth), factors);
}

double rounded_to_bf16(double x) {
  HostTensor one(TensorType{DType::fp32, Shape{1}});
  one.as<float>()[0] = static_cast<float>(x);
  return convert(convert(one, DType::bf16), DType::fp32).as<float>()[0];
}

// The rates of heads beyond a power of 2 stand between those of twice that power, every second one.
double bias_rate(std::int64_t head, std::int64_t heads, double largest) {
  const auto usual = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const double step = largest / static_cast<double>(usual);
  return std::exp2(head < usual ? -step * static_cast<double>(head + 1)
                                : -step * (static_cast<double>(head - usual) + 0.5));
}

// A constant term of a row of scores changes nothing: the last key has 0, unless the terms are rounded.
void write_linear_bias(Program& program, const TransformerConfig& config) {
  const Architecture& a = config.architecture;
  HostTensor bias(TensorType{DType::fp32, {config.context, config.heads}});
  const double of_scores = 1 / std::sqrt(static_cast<double>(config.head_size()));
  for (std::int64_t head = 0; head < config.heads; ++head) {
    const double rate = bias_rate(head, config.heads, a.largest_bias);
    for (std::int64_t key = 0; key < config.context; ++key) {
      const double term = a.low_bias ? rounded_to_bf16(rounded_to_bf16(rate) * static_cast<double>(key)) * of_scores
                                     : rate * static_cast<double>(key - config.context + 1);
      bias.as<float>()[static_cast<std::size_t>(key * config.heads + head)] = static_cast<float>(term);
    }
  }
  program.write_input(std::string(kLinearBias), bias);
}

// Uniform tokens in 15 % of the places, as in BERT's training (Devlin et al. 2019, section 3.1), and -100 in the
// others.
void write_masked_targets(Program& program, std::int64_t vocab, std::uint64_t seed) {
  constexpr std::int64_t kPercent = 100, kMasked = 15, kLeftOut = -100;
  const std::optional<Value> input = program.graph().find_input("targets");
  if (!input) return;
  HostTensor targets(program.graph().type(*input)), draws(targets.type);
  const std::int64_t first = program.parallel().rank * targets.type.elements();
  fill_uniform(targets.as<std::int64_t>(), vocab, random_stream("targets", seed), first);
  fill_uniform(draws.as<std::int64_t>(), kPercent, random_stream("targets.masked", seed), first);
  for (std::size_t i = 0; i < targets.as<std::int64_t>().size(); ++i) {
    if (draws.as<std::int64_t>()[i] >= kMasked) targets.as<std::int64_t>()[i] = kLeftOut;
  }
  program.write_input("targets", targets);
}

void write_constants(Program& program, const TransformerConfig& config) {
  const Graph& graph = program.graph();
  for (const NodeId id : graph.inputs(Role::constant)) {
    const std::string name = input_name(graph.node(id));
    const auto value = initial_constant(config, {name, graph.type(graph.node(id).outputs[0])});
    if (value) program.write_input(name, *value);
  }
}

}  // namespace

std::string_view name(Norm norm) { return kNorms[norm]; }
std::string_view name(NormPlacement placement) { return kPlacements[placement]; }
std::string_view name(Activation activation) { return kActivations[activation]; }
std::string_view name(Positions positions) { return kPositions[positions]; }
std::string_view name(BlockOrder order) { return kBlocks[order]; }
std::string_view name(ProjectionNorm norm) { return kProjectionNorms[norm]; }
std::string_view name(RotaryScaling scaling) { return kScalings[scaling]; }

Transformer::Transformer(TransformerConfig config, std::int64_t batch, KeyCache cache)
    : config_(std::move(config)), batch_(batch), cache_(cache) {
  validate(config_, batch_);
}

WorkloadDescription Transformer::describe() const {
  return {.model = {.name = config_.name,
                    .parameters = parameter_count(config_),
                    .layers = config_.layers,
                    .d_model = config_.d_model,
                    .d_ff = config_.d_ff,
                    .heads = config_.heads,
                    .vocab = config_.vocab,
                    .kv_heads = config_.kv_heads(),
                    .head_size = config_.head_size(),
                    .family = config_.architecture.family},
          .batch = batch_,
          .context = config_.context,
          .attention = config_.attention};
}

TruncatedNormal Transformer::initial_distribution(const ParameterDeclaration& parameter) const {
  constexpr std::string_view kMixer = ".mixer.";
  if (const std::size_t at = parameter.name.find(kMixer); at != std::string::npos) {
    const std::string_view within = std::string_view(parameter.name).substr(at + kMixer.size());
    if (const auto own = mixer_distribution(within, parameter.type)) return *own;
  }
  const std::string_view own = std::string_view(parameter.name).substr(parameter.name.rfind('.') + 1);
  const bool is_bias = own.ends_with("bias") || own == "sinks" || (own.size() == 2 && own[0] == 'b');
  const bool is_norm = parameter.type.shape.rank() == 1;
  if (parameter.name.ends_with("_norm.weight") && !config_.architecture.norm_adds_one) return {.mean = 1};
  if (is_bias || (is_norm && config_.architecture.norm_adds_one)) return {};
  const bool is_added = parameter.name == "position_embeddings.weight" ||
                        parameter.name == "token_type_embeddings.weight" || parameter.name == "class_token.weight";
  if (is_added) return {.deviation = kEmbeddingDeviation};
  if (parameter.name == "per_layer_embeddings.weight") return {.deviation = kEmbeddingDeviation};
  if (parameter.name == "token_embeddings.weight")
    return {.deviation = config_.architecture.family.empty() ? 1 : kEmbeddingDeviation};
  return Workload::initial_distribution(parameter);
}

std::optional<HostTensor> initial_constant(const TransformerConfig& config, const ParameterDeclaration& constant) {
  const bool is_factor = constant.name.ends_with(kLayerScalar);
  const bool is_table = constant.name.ends_with(kExpertTable);
  if (!is_factor && !is_table && !constant.name.ends_with(kCorrection)) return std::nullopt;
  HostTensor tensor(constant.type);
  const std::span<float> values = tensor.as<float>();
  if (is_factor) std::ranges::fill(values, 1.0F);
  for (std::size_t i = 0; is_table && i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<std::int64_t>(i) % config.architecture.experts.count);
  return tensor;
}

void Transformer::write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point) const {
  write_rotary_tables(program, config_, config_.context);
  write_constants(program, config_);
  Workload::write_data(program, seed, stop_point);
  if (config_.architecture.is_masked()) write_masked_targets(program, config_.vocab, seed);
}

std::int64_t Transformer::flops(const CompileOptions& options) const {
  TransformerConfig plain = config_;
  plain.attention = AttentionVariant::composite;
  return model_flops(build_transformer(plain, batch_), options);
}

bool rotates_by_length(const TransformerConfig& config) {
  const auto does = [](const Rotary& rotary) {
    return rotary.scaling == RotaryScaling::dynamic || rotary.scaling == RotaryScaling::longrope;
  };
  const Architecture& a = config.architecture;
  return does(a.rotary) || (a.separate_rotary && does(a.window_rotary));
}

std::string why_no_key_cache(const TransformerConfig& config) {
  const Architecture& a = config.architecture;
  if (!a.predicts_next_token()) return "its tokens see those after them";
  if (std::ranges::any_of(a.mixers, [](Mixer mixer) { return has_state(mixer); }))
    return "some of its layers keep another state than keys and values";
  if (a.selection.heads > 0 || a.compressed.q_rank > 0) return "its attention chooses or compresses keys";
  if (a.chunks) return "its attention sees the keys of a chunk";
  if (a.query_growth.strength != 0) return "its queries grow with their position";
  if (rotates_by_length(config)) return "its rotations depend on the length of the sequence";
  return "";
}

bool grows_queries(const TransformerConfig& config) {
  const QueryGrowth& growth = config.architecture.query_growth;
  return growth.strength != 0 && config.context - 1 + growth.offset >= growth.length;
}

std::int64_t rotated_width(const Rotary& rotary, std::int64_t head_size) {
  const double pairs = rotary.share * static_cast<double>(head_size) / 2;
  return 2 * (rotary.scaling == RotaryScaling::proportional ? static_cast<std::int64_t>(pairs) : std::llround(pairs));
}

std::int64_t rotated_width(const TransformerConfig& config, const Rotary& rotary) {
  return rotated_width(rotary, config.head_size());
}

std::int64_t rotated_width(const TransformerConfig& config, std::int64_t layer) {
  const Architecture& a = config.architecture;
  const bool is_window = a.has_window(layer);
  return is_window && a.separate_rotary ? rotated_width(a.window_rotary, config.head_size())
                                        : rotated_width(a.rotary, config.full_head_size());
}

std::vector<double> rotary_frequencies(const Rotary& rotary, std::int64_t width, std::int64_t context,
                                       std::int64_t head_size) {
  const double theta = theta_of(rotary, width, context);
  const std::vector<double>& factors = context > rotary.original_context ? rotary.long_factors : rotary.short_factors;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const std::int64_t whole = rotary.scaling == RotaryScaling::proportional ? head_size : width;
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(whole));
    switch (rotary.scaling) {
      case RotaryScaling::none:
      case RotaryScaling::dynamic: frequencies.push_back(frequency); break;
      case RotaryScaling::yarn: frequencies.push_back(yarn_frequency(rotary, width, i, frequency)); break;
      case RotaryScaling::longrope: frequencies.push_back(frequency / factors.at(static_cast<std::size_t>(i))); break;
      case RotaryScaling::proportional:
      case RotaryScaling::linear: frequencies.push_back(frequency / rotary.factor); break;
      case RotaryScaling::llama3: frequencies.push_back(llama3_frequency(rotary, frequency)); break;
    }
  }
  return frequencies;
}

void write_rotary_tables(Program& program, const TransformerConfig& config, std::int64_t length) {
  const auto has = [&](std::string_view name) {
    return program.graph().find_input(std::string(name) + ".cosines").has_value();
  };
  const Architecture& a = config.architecture;
  if (program.graph().find_input(std::string(kLinearBias))) write_linear_bias(program, config);
  if (program.graph().find_input(std::string(kQueryGrowth))) write_query_growth(program, config);
  if (has(kRotary)) write_tables(program, std::string(kRotary), config, a.rotary, config.full_head_size(), length);
  if (has(kWindowRotary))
    write_tables(program, std::string(kWindowRotary), config, a.window_rotary, config.head_size(), length);
}

WorkloadKind workload_transformer() {
  return {.name = "transformer",
          .settings = {"model", "config-override", "layers", "d-model", "d-ff", "heads", "vocab", "context", "batch",
                       "attention"},
          .make = [](const WorkloadSettings& s) { return std::make_shared<Transformer>(*s.model, s.batch); }};
}

}  // namespace ridgepoint
