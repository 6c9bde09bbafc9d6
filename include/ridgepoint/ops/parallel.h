// How a training step is divided among ranks: processes that run the same graph, each on a device of its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ridgepoint/core/dtype.h"

namespace ridgepoint {

// A bucket of gradients that is reduced as one collective has at least this many bytes. Two H200s were faster with it
// than with the 25 MiB of PyTorch's DistributedDataParallel, because fewer collectives hold up fewer kernels, and as
// fast as with 128 MiB. With larger ones the last bucket is late.
inline constexpr std::int64_t kBucketBytes = std::int64_t{64} << 20;
// A bucket that any gradient fills, and one that no gradients fill: each gradient is summed by itself, or all at once.
inline constexpr std::int64_t kEachGradient = 1;
inline constexpr std::int64_t kAllGradients = std::int64_t{1} << 62;

// What each rank keeps of the whole. none: everything. optimizer: a part of the optimizer's states and of what compiled
// runs store beside 16-bit weights (ZeRO stage 1). gradients: also of gradients, each of which is freed during
// backward, soon after its sum is divided among the ranks (ZeRO stage 2). parameters: also of parameters, which are
// gathered a layer before the one that reads them and freed behind it (ZeRO stage 3, PyTorch's fully_shard).
enum class Sharding : std::uint8_t { none, optimizer, gradients, parameters };
inline constexpr std::array kAllShardings = {Sharding::none, Sharding::optimizer, Sharding::gradients,
                                             Sharding::parameters};
// none optimizer gradients parameters
std::string_view name(Sharding sharding);
// The inverse of name(). Throws Error (usage) naming the nearest.
Sharding sharding_from_name(std::string_view text);
// Whether a rank has all gradients as a whole when backward has ended.
constexpr bool keeps_gradients(Sharding sharding) {
  return sharding == Sharding::none || sharding == Sharding::optimizer;
}

struct ParallelOptions {
  // Data parallelism: the ranks have the same parameters and different batches. The loss and the gradients are means
  // over the batches of all ranks.
  std::int64_t data = 1;
  // This process, from 0. The graphs of ranks differ only in which part of a tensor is theirs.
  std::int64_t rank = 0;
  Sharding shard = Sharding::none;
  // The type in which gradients are summed over ranks. Empty: that in which backward made them.
  std::optional<DType> reduce_dtype = {};
  std::int64_t bucket_bytes = kBucketBytes;
  // Sums run beside backward. Without it they begin when backward has ended, and no kernel runs beside them.
  bool overlap = true;

  bool is_parallel() const { return data > 1; }
  friend bool operator==(const ParallelOptions&, const ParallelOptions&) = default;
};

}  // namespace ridgepoint
