// Which tiles, and which steps of them, a cluster computes.
#pragma once

#include "backends/cuda/products/low_matmul/parameters.h"

namespace ridgepoint::cuda {
namespace {

struct Segment {
  int tile, begin, end;  // steps
};

// The segments that one cluster computes, in order.
class Segments {
 public:
  __device__ Segments(const LowMatmul& p, int cluster, int clusters)
      : p_(p),
        cluster_(cluster),
        clusters_(clusters),
        at_(first_shared(p, cluster, clusters)),
        end_(first_shared(p, cluster + 1, clusters)) {}

  __device__ bool next(Segment& segment) {
    if (round_ < p_.whole_rounds) {
      segment = {round_++ * clusters_ + cluster_, 0, p_.steps};
      return segment.tile < p_.tiles;
    }
    if (at_ >= end_) return false;
    const int tile = at_ / p_.steps;
    const int begin = at_ - tile * p_.steps;
    const int end = min(p_.steps, begin + end_ - at_);
    segment = {p_.whole_rounds * clusters_ + tile, begin, end};
    at_ += end - begin;
    return true;
  }

  static __device__ int first_shared(const LowMatmul& p, int cluster, int clusters) {
    return static_cast<int>(static_cast<long long>(cluster) * p.shared_steps / clusters);
  }

 private:
  const LowMatmul& p_;
  int cluster_, clusters_;
  int round_ = 0;
  int at_, end_;
};

// The first row and column of this block's tile, and the matrix of the batch. Tiles are numbered in bands of kBandRows
// rows of clusters' tiles, to stay in the cache.
struct Position {
  int row, column, matrix;

  template <class T>
  static __device__ __forceinline__ Position of(const LowMatmul& p, int tile, int rank) {
    const int tiles = p.tiles_m * p.tiles_n;
    Position position;
    position.matrix = tile / tiles;
    const int within = tile - position.matrix * tiles;
    const int band = within / (T::kBandRows * p.tiles_n);
    const int first = band * T::kBandRows;
    const int height = min(p.tiles_m - first, T::kBandRows);
    const int in_band = within - first * p.tiles_n;
    position.row = ((first + in_band % height) * T::kClusterRows + rank % T::kClusterRows) * T::kRows;
    position.column = (in_band / height * T::kClusterColumns + rank / T::kClusterRows) * (T::kColumns / T::kParts);
    return position;
  }
};

}  // namespace
}  // namespace ridgepoint::cuda
