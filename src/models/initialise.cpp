// Initial weights and rotary tables of the Transformer.
#include <cmath>

#include "models/random_tensor.h"
#include "models/transformer.h"

namespace ridgepoint {
namespace {

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

HostTensor Transformer::initial_value(const ParameterDeclaration& parameter, std::uint64_t seed,
                                      const StopPoint& stop_point) const {
  if (parameter.name != "token_embeddings.weight") return Workload::initial_value(parameter, seed, stop_point);
  HostTensor tensor(parameter.type);
  fill_truncated_normal(tensor.as<float>(), 1.0, random_stream(parameter.name, seed), stop_point);
  return tensor;
}

void Transformer::write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point) const {
  write_rotary_tables(program, config_);
  Workload::write_data(program, seed, stop_point);
}

}  // namespace ridgepoint
