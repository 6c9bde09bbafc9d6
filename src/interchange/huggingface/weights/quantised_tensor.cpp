#include "interchange/huggingface/weights/quantised_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/dynamic_code.h"
#include "core/rounding.h"
#include "core/text/throw_error.h"
#include "interchange/huggingface/config/config_fields.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

constexpr std::string_view kMagnitudes = ".absmax";
constexpr std::string_view kLevels = ".quant_map";
constexpr std::string_view kOuterMagnitudes = ".nested_absmax";
constexpr std::string_view kOuterLevels = ".nested_quant_map";
constexpr std::string_view kNf4State = ".quant_state.bitsandbytes__nf4";
constexpr std::string_view kFp4State = ".quant_state.bitsandbytes__fp4";
constexpr std::string_view kWeightEnd = ".weight";
constexpr std::string_view kRowScales = ".SCB";
constexpr std::string_view kRowFormat = ".weight_format";

constexpr std::int64_t kMostStateBytes = 4096;
constexpr std::int64_t kMostBlock = 4096;

// The numbers of the codes of fp4: a sign, and twelfths.
constexpr std::array<float, 16> kFp4Levels = {
    0, 0.0625F / 12,  8.0F / 12,  1,  4.0F / 12,  0.5F,  2.0F / 12,  0.25F,
    0, -0.0625F / 12, -8.0F / 12, -1, -4.0F / 12, -0.5F, -2.0F / 12, -0.25F,
};

std::string beside(std::string_view weight, std::string_view end) { return fmt::format("{}{}", weight, end); }
// Of a module, whose weight is another of its tensors.
std::string of_module(std::string_view weight, std::string_view end) {
  return fmt::format("{}{}", weight.substr(0, weight.size() - (weight.ends_with(kWeightEnd) ? kWeightEnd.size() : 0)),
                     end);
}

// Versions of PyTorch round the numbers of a table in their own way.
bool are_close(std::span<const float> found, std::span<const float> expected) {
  constexpr float kClose = 1e-5F;
  return std::ranges::equal(found, expected, [](float a, float b) { return std::abs(a - b) <= kClose * std::abs(b); });
}

std::span<const std::byte> slice(std::span<const std::byte> bytes, std::int64_t first, std::int64_t count) {
  return bytes.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

// The bytes of a packed matrix, by what tensors have of them.
struct Fields {
  explicit Fields(const PackedMatrix& m) {
    const bool has_nibbles = is_of_4_bits(m.format);
    codes = {0, has_nibbles ? ceil_divide(m.elements(), std::int64_t{2}) : m.elements()};
    constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
    const bool is_nested = m.format == BaseWeights::nf4;
    scales = {m.scales(), is_nested ? m.blocks() : (has_nibbles ? m.blocks() : m.rows) * kFloat};
    if (is_nested) outer = {m.outer_scales(), m.blocks_of_blocks() * kFloat};
  }
  struct Field {
    std::int64_t first = 0, bytes = 0;
  };
  Field codes, scales, outer;
};

// A part of a matrix begins at a multiple of so many elements, so that it has scales of its own.
std::int64_t scale_step(const PackedMatrix& m) {
  return m.format == BaseWeights::nf4 ? kNf4PartStep : is_of_4_bits(m.format) ? kNf4Block : m.columns;
}

float mean_of(const PackedBytes& part) {
  float mean = 0;
  std::memcpy(&mean, slice(part.bytes, part.matrix.mean(), sizeof mean).data(), sizeof mean);
  return mean;
}

HostTensor joined(const TensorType& type, std::span<const PackedBytes> parts, Fields::Field Fields::*field) {
  HostTensor tensor(type);
  auto to = tensor.data.begin();
  for (const PackedBytes& part : parts) {
    const Fields::Field place = Fields(part.matrix).*field;
    const std::span<const std::byte> bytes = slice(part.bytes, place.first, place.bytes);
    to = std::copy(bytes.begin(), bytes.end(), to);
  }
  return tensor;
}

HostTensor of_numbers(std::span<const float> numbers) {
  HostTensor tensor({DType::fp32, {static_cast<std::int64_t>(numbers.size())}});
  std::ranges::copy(numbers, tensor.as<float>().begin());
  return tensor;
}

}  // namespace

bool is_quantised(const TensorFiles& files, std::string_view weight) {
  const DType dtype = files.type(weight).dtype;
  return dtype == DType::udynamic8 || dtype == DType::dynamic8;
}

std::vector<std::string> names_beside(std::string_view weight) {
  std::vector<std::string> names;
  for (const auto end : {kMagnitudes, kLevels, kOuterMagnitudes, kOuterLevels, kNf4State, kFp4State})
    names.push_back(beside(weight, end));
  for (const auto end : {kRowScales, kRowFormat}) names.push_back(of_module(weight, end));
  return names;
}

QuantisedTensor::QuantisedTensor(const TensorFiles& files, std::string weight, std::int64_t rows, std::int64_t columns)
    : files_(files), weight_(std::move(weight)), rows_(rows), columns_(columns) {
  files_.type(weight_).dtype == DType::udynamic8 ? read_4bit() : read_8bit();
}

void QuantisedTensor::fail(std::string_view problem) const {
  throw_error("{} in '{}': {}", quote_name(weight_), files_.path().string(), problem);
}

HostTensor QuantisedTensor::tensor(const std::string& name, DType dtype, std::int64_t elements) const {
  if (!files_.contains(name)) fail(fmt::format("{} is missing, without which it cannot be read", quote_name(name)));
  const TensorType& found = files_.type(name);
  if (found.dtype != dtype || found.elements() != elements)
    fail(fmt::format("{} is {}[{}], and must have {} numbers of {}", quote_name(name), kSafetensorsDTypes[found.dtype],
                     found.elements(), elements, kSafetensorsDTypes[dtype]));
  return files_.read(name);
}

std::vector<float> QuantisedTensor::floats(std::string_view end, std::int64_t count) const {
  const HostTensor found = tensor(beside(weight_, end), DType::fp32, count);
  const std::span<const float> numbers = found.as<float>();
  if (!std::ranges::all_of(numbers, [](float one) { return std::isfinite(one); }))
    fail(fmt::format("{} has a number that is not finite", quote_name(beside(weight_, end))));
  return {numbers.begin(), numbers.end()};
}

void QuantisedTensor::read_4bit() {
  read_state();
  const std::int64_t bytes = ceil_divide(rows_ * columns_, std::int64_t{2});
  const TensorType& codes = files_.type(weight_);
  if (codes.elements() != bytes)
    fail(fmt::format("it has {} bytes, and {} x {} elements of 4 bits take {}", codes.elements(), rows_, columns_,
                     bytes));
  levels_ = floats(kLevels, static_cast<std::int64_t>(kNf4Levels.size()));
  const bool is_nf4 = files_.contains(beside(weight_, kNf4State));
  if (!are_close(levels_, is_nf4 ? kNf4Levels : kFp4Levels))
    fail(fmt::format("{} has other numbers than {}", quote_name(beside(weight_, kLevels)), is_nf4 ? "nf4" : "fp4"));
  read_magnitudes();
  if (is_nf4 && block_ == kNf4Block) format_ = is_nested_ ? BaseWeights::nf4 : BaseWeights::nf4_single;
}

void QuantisedTensor::read_state() {
  const bool is_nf4 = files_.contains(beside(weight_, kNf4State));
  const std::string name =
      beside(weight_, is_nf4 || !files_.contains(beside(weight_, kFp4State)) ? kNf4State : kFp4State);
  if (!files_.contains(name)) fail(fmt::format("{} is missing, without which it cannot be read", quote_name(name)));
  const std::int64_t size = files_.type(name).elements();
  if (size > kMostStateBytes)
    fail(fmt::format("{} has {} bytes; the most is {}", quote_name(name), size, kMostStateBytes));
  const HostTensor text = tensor(name, DType::udynamic8, size);
  const std::string_view characters(reinterpret_cast<const char*>(text.data.data()), text.data.size());
  const Json state = parse_json_object(characters, fmt::format("{} in '{}'", quote_name(name), files_.path().string()));
  const auto number = [&](const char* key) {
    const auto found = state.find(key);
    if (found == state.end() || !found->is_number()) fail(fmt::format("'{}' of its quant_state is no number", key));
    return found->get<double>();
  };
  const auto size_of = [&](const char* key, std::int64_t most) {
    const double found = number(key);
    if (found < 2 || found > static_cast<double>(most) || !std::has_single_bit(static_cast<std::uint64_t>(found)) ||
        found != std::floor(found))
      fail(fmt::format("'{}' of its quant_state is {}; it must be a power of two up to {}", key, found, most));
    return static_cast<std::int64_t>(found);
  };
  if (state.value("quant_type", Json()) != (is_nf4 ? "nf4" : "fp4"))
    fail(fmt::format("its quant_state is not of the type {}", is_nf4 ? "nf4" : "fp4"));
  const Json shape = state.value("shape", Json());
  if (shape != Json::array({rows_, columns_}))
    fail(fmt::format("its quant_state has the shape {}, and the model needs [{}, {}]", printable(dump_json(shape)),
                     rows_, columns_));
  block_ = size_of("blocksize", kMostBlock);
  is_nested_ = state.contains("nested_offset");
  if (!is_nested_) return;
  if (size_of("nested_blocksize", kMostBlock) != kNf4BlocksOfBlocks)
    fail(fmt::format("'nested_blocksize' of its quant_state is not {}", kNf4BlocksOfBlocks));
  mean_ = static_cast<float>(number("nested_offset"));
  if (!std::isfinite(mean_)) fail("'nested_offset' of its quant_state is not finite");
}

void QuantisedTensor::read_magnitudes() {
  const std::int64_t blocks = ceil_divide(rows_ * columns_, block_);
  if (!is_nested_) {
    magnitudes_ = floats(kMagnitudes, blocks);
    return;
  }
  codes_ = tensor(beside(weight_, kMagnitudes), DType::udynamic8, blocks).data;
  magnitudes_ = floats(kOuterMagnitudes, ceil_divide(blocks, kNf4BlocksOfBlocks));
  if (!are_close(floats(kOuterLevels, kDynamicCodes), dynamic_levels(DType::dynamic8)))
    fail(fmt::format("{} has other numbers than the dynamic map", quote_name(beside(weight_, kOuterLevels))));
}

void QuantisedTensor::read_8bit() {
  const TensorType& found = files_.type(weight_);
  if (!(found.shape == Shape{rows_, columns_}))
    fail(fmt::format("it is {}, and the model needs [{}, {}]", found.to_string(), rows_, columns_));
  const HostTensor scales = tensor(of_module(weight_, kRowScales), DType::fp32, rows_);
  magnitudes_.assign(scales.as<float>().begin(), scales.as<float>().end());
  if (!std::ranges::all_of(magnitudes_, [](float one) { return std::isfinite(one); }))
    fail(fmt::format("{} has a number that is not finite", quote_name(of_module(weight_, kRowScales))));
  const std::string rows = of_module(weight_, kRowFormat);
  if (files_.contains(rows) && tensor(rows, DType::udynamic8, 1).data[0] != std::byte{0})
    fail(
        fmt::format("{} is not 0: the rows are not together, as bitsandbytes once stored them; load the model by its "
                    "version 0.45 or later, and save it again",
                    quote_name(rows)));
  format_ = BaseWeights::int8;
}

std::vector<float> QuantisedTensor::widened() const {
  const std::int64_t count = rows_ * columns_;
  std::vector<float> elements(static_cast<std::size_t>(count));
  if (format_ != BaseWeights::as_is) {
    const PackedMatrix matrix{format_, rows_, columns_};
    unpack(matrix, packed(matrix, 0).data(), 0, count, elements.data());
    return elements;
  }
  const HostTensor codes = files_.read(weight_);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto block = static_cast<std::size_t>(i / block_);
    float magnitude = magnitudes_[is_nested_ ? block / static_cast<std::size_t>(kNf4BlocksOfBlocks) : block];
    if (is_nested_)
      magnitude = dynamic_levels(DType::dynamic8)[std::to_integer<std::size_t>(codes_[block])] * magnitude + mean_;
    const auto pair = std::to_integer<unsigned>(codes.data[static_cast<std::size_t>(i / 2)]);
    elements[static_cast<std::size_t>(i)] = levels_[i % 2 == 0 ? pair >> 4U : pair & 0xFU] * magnitude;
  }
  return elements;
}

std::vector<std::byte> QuantisedTensor::packed(const PackedMatrix& matrix, std::int64_t first_row) const {
  if (matrix.format != format_ || matrix.columns != columns_ || first_row + matrix.rows > rows_)
    fail(fmt::format(
        "it is not in {}, which its config.json says{}; --base-weights as-is widens it", name(matrix.format),
        block_ == 0 || block_ == kNf4Block ? "" : fmt::format(", in blocks of {}, but of {}", kNf4Block, block_)));
  const std::int64_t first = first_row * columns_;
  const bool is_nested = format_ == BaseWeights::nf4;
  const std::int64_t step = scale_step(matrix);
  if (first % step != 0) fail("one of the layers that it packs begins within a block of its scales");
  std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.bytes()));
  const auto put = [&](const Fields::Field& field, std::span<const std::byte> from, std::int64_t skipped) {
    std::ranges::copy(slice(from, skipped, field.bytes), bytes.begin() + field.first);
  };
  const Fields fields(matrix);
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  put(fields.codes, files_.read(weight_).data, is_of_4_bits(format_) ? first / 2 : first);
  if (!is_nested) {
    put(fields.scales, std::as_bytes(std::span(magnitudes_)), first / step * kFloat);
    return bytes;
  }
  put(fields.scales, codes_, first / kNf4Block);
  put(fields.outer, std::as_bytes(std::span(magnitudes_)), first / kNf4PartStep * kFloat);
  std::memcpy(bytes.data() + matrix.mean(), &mean_, sizeof mean_);
  return bytes;
}

bool QuantisedParts::are_one(std::span<const PackedBytes> parts) {
  const PackedBytes& first = parts.front();
  const BaseWeights format = first.matrix.format;
  const std::int64_t step = scale_step(first.matrix);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PackedMatrix& matrix = parts[i].matrix;
    if (matrix.format != format || matrix.columns != first.matrix.columns) return false;
    if (i + 1 < parts.size() && matrix.elements() % step != 0) return false;
    if (format != BaseWeights::nf4) continue;
    if (std::bit_cast<std::uint32_t>(mean_of(parts[i])) != std::bit_cast<std::uint32_t>(mean_of(first))) return false;
  }
  return true;
}

QuantisedParts::QuantisedParts(std::string weight, std::vector<PackedBytes> parts, std::string_view dtype)
    : parts_(std::move(parts)) {
  PackedMatrix whole = parts_.front().matrix;
  whole.rows = 0;
  for (const PackedBytes& part : parts_) whole.rows += part.matrix.rows;
  const auto add = [&](std::string name, DType type, const Shape& shape, Make make) {
    declarations_.push_back({std::move(name), {type, shape}});
    makes_.push_back(make);
  };
  if (whole.format == BaseWeights::int8) {
    add(weight, DType::dynamic8, {whole.rows, whole.columns}, Make::codes);
    add(of_module(weight, kRowScales), DType::fp32, {whole.rows}, Make::scales);
    add(of_module(weight, kRowFormat), DType::udynamic8, {}, Make::zero);
    return;
  }
  const bool is_nested = whole.format == BaseWeights::nf4;
  // As json.dumps() writes it.
  state_ = fmt::format(R"({{"quant_type": "nf4", "blocksize": {}, "dtype": "{}", "shape": [{}, {}])", kNf4Block,
                       dtype.empty() ? "bfloat16" : dtype, whole.rows, whole.columns);
  if (is_nested)
    state_ += fmt::format(R"(, "nested_blocksize": {}, "nested_dtype": "float32", "nested_offset": {})",
                          kNf4BlocksOfBlocks, Json(static_cast<double>(mean_of(parts_.front()))).dump());
  state_ += "}";
  add(weight, DType::udynamic8, {ceil_divide(whole.elements(), std::int64_t{2}), 1}, Make::codes);
  add(beside(weight, kMagnitudes), is_nested ? DType::udynamic8 : DType::fp32, {whole.blocks()}, Make::scales);
  add(beside(weight, kLevels), DType::fp32, {static_cast<std::int64_t>(kNf4Levels.size())}, Make::levels);
  add(beside(weight, kNf4State), DType::udynamic8, {static_cast<std::int64_t>(state_.size())}, Make::state);
  if (!is_nested) return;
  add(beside(weight, kOuterMagnitudes), DType::fp32, {whole.blocks_of_blocks()}, Make::outer_scales);
  add(beside(weight, kOuterLevels), DType::fp32, {kDynamicCodes}, Make::outer_levels);
}

HostTensor QuantisedParts::value(std::size_t i) const {
  const TensorType& type = declarations_[i].type;
  switch (makes_[i]) {
    case Make::codes: return joined(type, parts_, &Fields::codes);
    case Make::scales: return joined(type, parts_, &Fields::scales);
    case Make::outer_scales: return joined(type, parts_, &Fields::outer);
    case Make::levels: return of_numbers(kNf4Levels);
    case Make::outer_levels: return of_numbers(dynamic_levels(DType::dynamic8));
    case Make::zero: return HostTensor(type);
    case Make::state: break;
  }
  HostTensor text(type);
  std::ranges::copy(std::as_bytes(std::span(state_)), text.data.begin());
  return text;
}

}  // namespace ridgepoint
