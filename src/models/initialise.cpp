// Initial weights, rotary tables and random tokens. Everything is a function of the seed, the tensor's name and the
// element's index, so that it does not depend on threads or order.
#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// splitmix64 (Steele, Lea & Flood 2014): a well-mixed function of its argument.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::uint64_t stream_of(const std::string& name, std::uint64_t seed) {
  std::uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// The normal quantile for 0.001 < p < 0.999: algorithm AS 241, PPND7 (Wichura 1988), relative accuracy 1e-7.
double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
           (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
  }
  const double r = std::sqrt(-std::log(q < 0 ? p : 1.0 - p)) - 1.6;
  const double tail = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
                      ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  return q < 0 ? -tail : tail;
}

constexpr double kBelowMinusThree = 0.0013498980316300933;  // normal probability below -3

float truncated_normal(double sigma, std::uint64_t stream, std::int64_t index) {
  const double uniform = (static_cast<double>(mix(stream + static_cast<std::uint64_t>(index)) >> 11) + 0.5) * 0x1p-53;
  return static_cast<float>(sigma * normal_quantile(kBelowMinusThree + uniform * (1.0 - 2.0 * kBelowMinusThree)));
}

void fill_truncated_normal(std::span<float> values, double sigma, std::uint64_t stream, const StopPoint& stop_point) {
  constexpr std::int64_t kGrain = 16384;
  constexpr std::int64_t kBetweenStopPoints = 1 << 22;  // some 50 ms of one core
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::int64_t first = 0; first < count; first += kBetweenStopPoints) {
    if (stop_point) stop_point();
    const std::int64_t length = std::min(kBetweenStopPoints, count - first);
    parallel_for(length, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = first + begin; i < first + end; ++i) {
        values[static_cast<std::size_t>(i)] = truncated_normal(sigma, stream, i);
      }
    });
  }
}

void write_rotary_tables(Program& program, const TransformerConfig& config) {
  constexpr double kTheta = 10000.0;
  const std::int64_t width = config.d_model / config.heads;
  const TensorType type{DType::fp32, {config.context, width / 2}};
  HostTensor cosines(type);
  HostTensor sines(type);
  for (std::int64_t position = 0; position < config.context; ++position) {
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(kTheta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const auto at = static_cast<std::size_t>(position * (width / 2) + i);
      cosines.as<float>()[at] = static_cast<float>(std::cos(angle));
      sines.as<float>()[at] = static_cast<float>(std::sin(angle));
    }
  }
  program.write_input("rope.cosines", cosines);
  program.write_input("rope.sines", sines);
}

}  // namespace

HostTensor initial_parameter(const std::string& name, const TensorType& type, std::uint64_t seed,
                             const StopPoint& stop_point) {
  HostTensor tensor(type);
  const std::span<float> values = tensor.as<float>();
  if (type.shape.rank() == 1) {
    std::fill(values.begin(), values.end(), 1.0F);  // norm weights
  } else {
    const bool is_embedding = name == "token_embeddings.weight";
    const double sigma = is_embedding ? 1.0 : std::sqrt(2.0 / static_cast<double>(type.shape[0] + type.shape[1]));
    fill_truncated_normal(values, sigma, stream_of(name, seed), stop_point);
  }
  return tensor;
}

void initialise_constants(Program& program, const TransformerConfig& config) {
  write_rotary_tables(program, config);
  initialise_loss_scaling(program, {});
}

void initialise(Program& program, const TransformerConfig& config, std::uint64_t seed, const StopPoint& stop_point) {
  initialise_constants(program, config);
  const Graph& graph = program.graph();
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    if (node.attributes.get<std::string>("role") != name(Role::parameter)) continue;
    const std::string& parameter = node.attributes.get<std::string>("name");
    program.write_input(parameter, initial_parameter(parameter, graph.type(node.outputs[0]), seed, stop_point));
  }
}

void write_random_tokens(Program& program, const TransformerConfig& config, std::uint64_t seed) {
  const Graph& graph = program.graph();
  for (const char* which : {"inputs", "targets"}) {
    const std::optional<Value> value = graph.find_input(which);
    if (!value) continue;  // a forward program has no targets
    HostTensor tokens(graph.type(*value));
    const std::uint64_t stream = stream_of(which, seed);
    const std::span<std::int64_t> indices = tokens.as<std::int64_t>();
    for (std::size_t i = 0; i < indices.size(); ++i)
      indices[i] = static_cast<std::int64_t>(mix(stream + i) % static_cast<std::uint64_t>(config.vocab));
    program.write_input(which, tokens);
  }
}

}  // namespace ridgepoint
