#include "models/rotary_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace ridgepoint {
namespace {

// Llama 3.1's: waves longer than the original context over `low` are stretched by the factor, those shorter than it
// over `high` are not, and between them the frequency is interpolated.
double llama3_frequency(const Rotary& rotary, double frequency) {
  const double waves = static_cast<double>(rotary.original_context) * frequency / (2 * std::numbers::pi);
  const double smooth =
      (waves - rotary.low_frequency_factor) / (rotary.high_frequency_factor - rotary.low_frequency_factor);
  const double share = std::clamp(smooth, 0.0, 1.0);
  return (1 - share) * frequency / rotary.factor + share * frequency;
}

void write_tables(Program& program, const std::string& name, const TransformerConfig& config, const Rotary& rotary) {
  const std::vector<double> frequencies = rotary_frequencies(rotary, rotated_width(config, rotary));
  const TensorType type{DType::fp32, {config.context, static_cast<std::int64_t>(frequencies.size())}};
  HostTensor cosines(type);
  HostTensor sines(type);
  for (std::int64_t position = 0; position < config.context; ++position) {
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      const std::size_t at = static_cast<std::size_t>(position) * frequencies.size() + i;
      cosines.as<float>()[at] = static_cast<float>(std::cos(angle));
      sines.as<float>()[at] = static_cast<float>(std::sin(angle));
    }
  }
  program.write_input(name + ".cosines", cosines);
  program.write_input(name + ".sines", sines);
}

}  // namespace

std::int64_t rotated_width(const TransformerConfig& config, const Rotary& rotary) {
  return std::llround(rotary.share * static_cast<double>(config.head_size()) / 2) * 2;
}

std::vector<double> rotary_frequencies(const Rotary& rotary, std::int64_t width) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double frequency = std::pow(rotary.theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    switch (rotary.scaling) {
      case RotaryScaling::none:
        frequencies.push_back(frequency);
        break;
      case RotaryScaling::linear:
        frequencies.push_back(frequency / rotary.factor);
        break;
      case RotaryScaling::llama3:
        frequencies.push_back(llama3_frequency(rotary, frequency));
        break;
    }
  }
  return frequencies;
}

void write_rotary_tables(Program& program, const TransformerConfig& config) {
  const auto has = [&](std::string_view name) {
    return program.graph().find_input(std::string(name) + ".cosines").has_value();
  };
  const Architecture& a = config.architecture;
  if (has(kRotary)) write_tables(program, std::string(kRotary), config, a.rotary);
  if (has(kWindowRotary)) write_tables(program, std::string(kWindowRotary), config, a.window_rotary);
}

}  // namespace ridgepoint
