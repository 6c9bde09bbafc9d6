#include "ir/stored_halves.h"

#include <cstdint>
#include <cstring>

#include "core/threads/parallel.h"
#include "core/types/halves.h"

namespace ridgepoint {
namespace {

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
