#include "backends/cuda/collectives/copied_collectives.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/kernels/rank_sums/rank_sums.h"

namespace ridgepoint::cuda {
namespace {

constexpr auto kVector = static_cast<std::size_t>(kVectorBytes);

bool are_vectors(const std::byte* from, const std::byte* to, std::size_t bytes) {
  return (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) | bytes) % kVector == 0;
}

}  // namespace

std::size_t CopiedCollectives::divisible(std::size_t bytes) const {
  const std::size_t unit = kVector * static_cast<std::size_t>(channel_.ranks());
  return bytes / unit * unit;
}

bool CopiedCollectives::can_scatter(std::size_t bytes) const {
  return divisible(bytes) == bytes && bytes <= DirectMemory::kStagingBytes;
}

// NCCL would copy the part of this rank too, before those for others: by a kernel of the driver, which waits until the
// multiprocessors are free, for each tensor. One kernel behind all tensors waits once, and holds up no other rank.
void CopiedCollectives::all_gather(const std::vector<Tensor>& parts) {
  RankSums own_parts;
  const auto copy_own_parts = [&] {
    if (own_parts.count > 0) launch_copies_of_own_parts(channel_.context(), channel_.stream(), own_parts);
    own_parts.count = 0;
  };
  for (const Tensor& part : parts) {
    check(nccl().ncclAllGather(part.in, part.out, part.bytes, NcclType::int8, memory_.copying(), channel_.stream()),
          "all-gather");
    std::byte* const place = part.out + static_cast<std::size_t>(channel_.rank()) * part.bytes;
    if (part.in == place || !are_vectors(part.in, place, part.bytes)) continue;
    channel_.context().graph_edits().leave_out_copy(part.in, place);
    own_parts.sums[own_parts.count++] = {
        .own_part = part.in, .sum = place, .vectors = static_cast<std::int64_t>(part.bytes / kVector)};
    if (own_parts.count == RankSums::kMost) copy_own_parts();
  }
  copy_own_parts();
}

// As many pieces at a time as the staging memory holds. A tensor is cut into pieces only for an all_reduce: each rank
// then sums a part of each piece.
void CopiedCollectives::sum(const std::vector<Tensor>& tensors, DType dtype, bool is_gathered) {
  std::vector<Tensor> pieces;
  std::size_t staged = 0;
  for (Tensor rest : tensors) {
    while (rest.bytes > 0) {
      const std::size_t room = divisible(DirectMemory::kStagingBytes - staged);
      const bool fits = is_gathered ? room > 0 : rest.bytes <= room;
      if (!fits || pieces.size() == RankSums::kMost) {
        sum_pieces(std::exchange(pieces, {}), dtype, is_gathered);
        staged = 0;
        continue;
      }
      const std::size_t bytes = std::min(rest.bytes, room);
      pieces.push_back({rest.in, rest.out, bytes});
      staged += bytes;
      rest = {rest.in + bytes, rest.out + bytes, rest.bytes - bytes};
    }
  }
  if (!pieces.empty()) sum_pieces(pieces, dtype, is_gathered);
}

void CopiedCollectives::sum_pieces(const std::vector<Tensor>& pieces, DType dtype, bool is_gathered) {
  const auto ranks = static_cast<std::size_t>(channel_.ranks());
  const auto rank = static_cast<std::size_t>(channel_.rank());
  RankSums sums;
  sums.ranks = channel_.ranks();
  sums.rank = channel_.rank();
  std::byte* parts = memory_.staging();
  for (const Tensor& piece : pieces) {
    const std::size_t part_bytes = piece.bytes / ranks;
    check(nccl().ncclAlltoAll(piece.in, parts, part_bytes, NcclType::int8, memory_.copying(), channel_.stream()),
          "exchange parts");
    // NCCL also copies the part that the rank keeps, which the kernel reads where it is.
    const std::byte* own_part = piece.in + rank * part_bytes;
    channel_.context().graph_edits().leave_out_copy(own_part, parts + rank * part_bytes);
    std::byte* sum = piece.out + (is_gathered ? rank * part_bytes : 0);
    sums.sums[sums.count++] = {parts, own_part, sum, static_cast<std::int64_t>(part_bytes / kVector)};
    parts += piece.bytes;
  }
  launch_rank_sums(channel_.context(), channel_.stream(), dtype, sums);
  if (!is_gathered) return;
  std::vector<Tensor> summed;
  for (const Tensor& piece : pieces)
    summed.push_back({piece.out + rank * (piece.bytes / ranks), piece.out, piece.bytes / ranks});
  all_gather(summed);
}

// Each rank gets a slice of all ranks, so the ranks send several times what copies would; a run launches it once.
void CopiedCollectives::sum_by_kernels(const Tensor& tensor, DType dtype, bool is_gathered) {
  const auto ranks = static_cast<std::size_t>(channel_.ranks());
  const std::size_t part_bytes = tensor.bytes / ranks;
  const std::size_t most = divisible(DirectMemory::kStagingBytes) / ranks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t done = 0; done < part_bytes; done += most) {
      const std::size_t bytes = std::min(most, part_bytes - done);
      const std::byte* slice = tensor.in + rank * part_bytes + done;
      NcclGroup group;
      check(nccl().ncclAllGather(slice, memory_.staging(), bytes, NcclType::int8, channel_.handle(), channel_.stream()),
            "gather parts");
      group.launch();
      if (!is_gathered && rank != static_cast<std::size_t>(channel_.rank())) continue;
      RankSums sums;
      sums.ranks = channel_.ranks();
      sums.rank = channel_.rank();
      std::byte* sum = tensor.out + (is_gathered ? rank * part_bytes : 0) + done;
      sums.sums[sums.count++] = {memory_.staging(), slice, sum, static_cast<std::int64_t>(bytes / kVector)};
      launch_rank_sums(channel_.context(), channel_.stream(), dtype, sums);
    }
  }
}

}  // namespace ridgepoint::cuda
