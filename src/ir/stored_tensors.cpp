#include "ir/stored_tensors.h"

#include <cstring>
#include <numeric>

#include "core/threads/parallel.h"
#include "core/types/halves.h"
#include "ir/packed_weight.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  for (;;) {
    const std::size_t comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return names;
    list.remove_prefix(comma + 1);
  }
}

bool describe_rows(const std::vector<std::int64_t>& rows, std::size_t names, const Shape& shape) {
  if (rows.size() != names || shape.rank() == 0) return false;
  std::int64_t rest = shape[0];
  for (const std::int64_t count : rows) {
    if (count <= 0 || count > rest) return false;
    rest -= count;
  }
  return rest == 0;
}

Shape declared_shape(const Node& input) {
  const auto& sizes = input.attributes.get<std::vector<std::int64_t>>(kDeclaredShape);
  return Shape(std::vector<Dim>(sizes.begin(), sizes.end()));
}

constexpr std::int64_t kHalvesAtOnce = 1 << 16;

template <typename T>
T read(std::span<const std::byte> from, std::int64_t i) {
  T value;
  std::memcpy(&value, from.data() + static_cast<std::size_t>(i) * sizeof value, sizeof value);
  return value;
}

template <typename T>
void write(std::span<std::byte> to, std::int64_t i, T value) {
  std::memcpy(to.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
}

}  // namespace

bool is_divided(const Node& input) {
  return input.attributes.contains(kDeclaredShape) && input.attributes.contains(kPart);
}

std::vector<StoredTensor> stored_tensors(const Graph& graph, const Node& input) {
  const TensorType& type_of_store = graph.type(input.outputs[0]);
  TensorType type = type_of_store;
  if (input.attributes.contains(kDeclaredDType))
    type.dtype = dtype_from_name(input.attributes.get<std::string>(kDeclaredDType));
  if (input.attributes.contains(kDeclaredShape)) type.shape = declared_shape(input);
  const bool is_packed = input.attributes.contains(kFormat);
  const bool has_parts = input.attributes.contains(kParts);
  if (!is_packed && !has_parts) return {{input_name(input), type}};
  std::vector<std::string> names = {input_name(input)};
  std::vector<std::int64_t> rows;
  if (has_parts) {
    names = names_in(input.attributes.get<std::string>(kParts));
    rows = part_rows(input);
    if (!describe_rows(rows, names.size(), type.shape)) {
      throw Error("the parts of input '" + input_name(input) + "' do not add up to its first dimension",
                  ErrorKind::usage);
    }
  } else {
    rows = {type.shape[0]};
  }
  std::vector<StoredTensor> tensors;
  const std::vector<RowOrder> orders = row_orders(input.attributes, rows);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    tensors.push_back({names[i], {type.dtype, with_size(type.shape, 0, rows[i])}, first});
    if (is_packed) {
      const BaseWeights format = base_weights_from_name(input.attributes.get<std::string>(kFormat));
      tensors.back().packed = PackedMatrix{format, rows[i], type.shape[1], orders[i]};
      first += type_of_store.dtype == DType::packed ? tensors.back().packed->bytes() : tensors.back().type.elements();
    } else {
      first += tensors.back().type.elements();
    }
  }
  return tensors;
}

void lay_parts(Node& input, std::span<const std::string> names, std::vector<std::int64_t> rows) {
  const std::string list = std::accumulate(names.begin() + 1, names.end(), names.front(),
                                           [](const std::string& a, const std::string& b) { return a + "," + b; });
  input.attributes.set(kParts, list);
  input.attributes.set(kRows, std::move(rows));
}

std::vector<std::int64_t> part_rows(const Node& input) {
  return input.attributes.get_or<std::vector<std::int64_t>>(kRows, {});
}

void convert_to_stored(const HostTensor& tensor, HostTensor& result) {
  const DType to = result.type.dtype;
  if (tensor.type.dtype != DType::fp32 || (to != DType::bf16 && to != DType::low_half)) return convert(tensor, result);
  parallel_for(tensor.type.elements(), kHalvesAtOnce, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto bits = read<std::uint32_t>(tensor.data, i);
      write(result.data, i, to == DType::bf16 ? round_away_to_bf16(bits) : low_half_of(bits));
    }
  });
}

void join_halves(std::span<const std::byte> rounded, std::span<const std::byte> low, std::span<std::byte> numbers) {
  parallel_for(static_cast<std::int64_t>(numbers.size() / sizeof(float)), kHalvesAtOnce,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i)
                   write(numbers, i, join_halves(read<std::uint16_t>(rounded, i), read<std::uint16_t>(low, i)));
               });
}

}  // namespace ridgepoint
