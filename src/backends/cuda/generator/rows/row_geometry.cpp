#include <algorithm>

#include "backends/cuda/generator/rows/rows.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kWarpTeamThreads = 128;  // of a block whose teams are within warps
constexpr int kSummingThreads = 256;   // the same if each block writes partial sums: fewer blocks are better
constexpr int kMostThreads = 1024;
constexpr int kManyThreads = 512;          // in a larger block a thread has at most 64 registers
constexpr int kRegisterBytes = 65536 * 4;  // of a multiprocessor
constexpr int kResidentThreads = 2048;
// Register bytes for the elements of a row that a thread holds, in blocks of at most kManyThreads and larger.
constexpr int kHeldBytes = 384;
constexpr int kHeldBytesInLargeBlock = 128;
constexpr int kHeldBytesOfTwoBlocks = 256;  // two blocks of kManyThreads fit on a multiprocessor, or nearly
constexpr int kHeldBytesOfSums = 288;       // with accumulation over many rows: two blocks must fit on a multiprocessor
constexpr int kOtherRegisterBytes = 128;    // addresses, indices, temporaries
constexpr int kFewestOtherBytes = 64;       // the same where registers are few
constexpr int kWantedVectors = 4;           // independent loads of a thread
constexpr int kManyBlocks = 3;              // on a multiprocessor: while one computes, enough others load

int round_up_to_warp(std::int64_t threads) { return static_cast<int>(ceil_divide(threads, kWarp) * kWarp); }

// For rows of at most kLongestWarpRow elements: so few lanes for each row that a lane has several loads in flight,
// unless there are too few rows to fill the GPU.
RowGeometry warp_geometry(std::int64_t rows, std::int64_t vectors, bool accumulates, std::int64_t multiprocessors) {
  RowGeometry geometry;
  const bool many_rows = rows >= multiprocessors * 64;
  const std::int64_t wanted = many_rows ? ceil_divide(vectors, kWantedVectors) : vectors;
  geometry.lanes = std::min(kWarp, round_up_to_power(wanted));
  if (many_rows && vectors >= 8) geometry.lanes = std::max(geometry.lanes, 8);
  geometry.vectors = static_cast<int>(std::max<std::int64_t>(1, ceil_divide(vectors, geometry.lanes)));
  int threads = accumulates ? kSummingThreads : kWarpTeamThreads;
  while (!accumulates && threads > kWarp && rows * geometry.lanes < threads * 2 * multiprocessors) threads /= 2;
  geometry.teams = threads / geometry.lanes;
  return geometry;
}

// The number of vectors for each thread that leaves the fewest threads idle.
int best_vectors(std::int64_t vectors, int most) {
  int best = 1;
  double best_use = 0;
  for (int count = 2; count <= most; ++count) {
    const double use = static_cast<double>(vectors) / (round_up_to_warp(ceil_divide(vectors, count)) * count);
    if (round_up_to_warp(ceil_divide(vectors, count)) <= kManyThreads && use > best_use + 0.02) {
      best = count;
      best_use = use;
    }
  }
  return best;
}

RowGeometry block_geometry(std::int64_t rows, std::int64_t vectors, int vector_bytes, std::int64_t multiprocessors) {
  RowGeometry geometry;
  const int most = std::max(1, kHeldBytes / vector_bytes);
  const int most_in_large_block = std::max(1, kHeldBytesInLargeBlock / vector_bytes);
  const auto use = [&](int count) {
    geometry.vectors = count;
    geometry.lanes = round_up_to_warp(ceil_divide(vectors, count));
    return geometry;
  };
  const int few = static_cast<int>(ceil_divide(vectors, kMostThreads));
  if (rows <= multiprocessors && few <= most_in_large_block) return use(few);
  const int balanced = best_vectors(vectors, std::clamp(kHeldBytesOfTwoBlocks / vector_bytes, 1, 6));
  if (balanced * kManyThreads >= vectors) return use(balanced);
  if (static_cast<std::int64_t>(most) * kManyThreads >= vectors)
    return use(static_cast<int>(ceil_divide(vectors, kManyThreads)));
  if (few <= most_in_large_block) return use(few);
  geometry.looped = true;
  geometry.lanes = kManyThreads;
  geometry.vectors = kWantedVectors;
  return geometry;
}

}  // namespace

RowGeometry choose_row_geometry(const RowProgram& program, int width, int kept_bytes, int accumulated_bytes,
                                std::int64_t multiprocessors) {
  const std::int64_t vectors = program.space.columns / width;
  const int vector_bytes = std::max(4, kept_bytes + accumulated_bytes) * width;
  const std::int64_t rows = program.space.row_count();
  RowGeometry geometry = program.space.columns <= kLongestWarpRow
                             ? warp_geometry(rows, vectors, accumulated_bytes > 0, multiprocessors)
                             : block_geometry(rows, vectors, vector_bytes, multiprocessors);
  const int most_bytes = accumulated_bytes > 0 ? kHeldBytesOfSums : kHeldBytes;
  if (geometry.in_warp() && geometry.vectors * vector_bytes > most_bytes)
    geometry = block_geometry(rows, vectors, vector_bytes, multiprocessors);
  geometry.width = width;
  const int held_bytes = geometry.vectors * vector_bytes;
  const int thread_bytes = kOtherRegisterBytes + held_bytes;
  geometry.blocks_per_multiprocessor = std::clamp(
      std::min(kRegisterBytes / (geometry.threads() * thread_bytes), kResidentThreads / geometry.threads()), 1, 16);
  const int fitting = kRegisterBytes / (geometry.threads() * (kFewestOtherBytes + held_bytes));
  if (!geometry.looped && fitting < kManyBlocks) geometry.few_blocks = std::max(fitting, 1);
  return geometry;
}

}  // namespace ridgepoint::cuda
