// Products of bf16 or fp16 operands on Hopper: the host side of low_matmul.cuh. One launch computes the whole
// batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/tensor_map.h"
#include "backends/cuda/products/low_matmul/parameters.h"
#include "runtime/device/matmul_problem.h"

namespace ridgepoint::cuda {

// How the blocks of a launch divide a product. Two warpgroups of a block have halves of a tile, or tiles of their own
// `by_turns`; blocks of a cluster have tiles side by side.
struct LowTiling {
  int rows = 0;  // of a tile
  int columns = 0;
  int cluster_rows = 1;
  int cluster_columns = 1;
  bool by_turns = false;
  int blocks = 0;
  bool shares = false;  // whether clusters share the steps along k of the tiles of the last rounds (split-K)
  bool operator==(const LowTiling&) const = default;

  int cluster_blocks() const { return cluster_rows * cluster_columns; }
  // "128x256_2x1 in 132" or "128x128_2x1_turns in 132 shared", and the reverse; nullopt for other text.
  std::string to_text() const;
  static std::optional<LowTiling> from_text(std::string_view text);
};

// A product without addresses. Needs no GPU.
class LowMatmulPlan {
 public:
  // The version of the kernels: a choice measured with another version is measured again.
  static constexpr int kVersion = 1;

  // nullopt if the kernels do not support the product: operands of another dtype than bf16 and fp16, rows that do not
  // begin at multiples of 16 bytes, two batch dimensions, the transposes of both operands, sizes above 2^30.
  static std::optional<LowMatmulPlan> of(const MatmulProblem& problem);

  // The tilings to measure on a GPU with so many multiprocessors, whose partial sums fit in the workspace.
  std::vector<LowTiling> candidates(int multiprocessors, std::size_t workspace_bytes) const;
  // Whether a tiling that was read from disk is a candidate.
  bool supports(const LowTiling& tiling, int multiprocessors, std::size_t workspace_bytes) const;

  // The kernel's parameters without addresses and tensor maps.
  LowMatmul parameters(const LowTiling& tiling) const;
  std::array<TensorMapShape, 3> maps(const LowTiling& tiling) const;  // of a, b and c
  int shared_bytes(const LowTiling& tiling) const;
  // low_matmul_bf16_128x256_2x1_nt; with fp32 results low_matmul_bf16_fp32_...
  std::string function_name(const LowTiling& tiling) const;
  std::string image() const;  // the .cu file, as in kernel_images.h

 private:
  struct Matrix {
    std::int64_t contiguous = 0, other = 0;  // sizes
    std::int64_t leading = 0, batch_stride = 0;
  };
  static std::optional<Matrix> matrix_of(const StridedMatrix& matrix, std::int64_t batch_stride, bool& rows_contiguous);
  TensorMapShape map_of(const Matrix& matrix, DType dtype) const;
  std::int64_t tiles(const LowTiling& tiling) const;
  std::int64_t steps() const;

  DType dtype_ = DType::bf16;
  DType result_dtype_ = DType::bf16;
  std::int64_t m_ = 0, n_ = 0, k_ = 0;
  std::int64_t batch_ = 1;
  Matrix a_, b_, c_;
  bool a_rows_contiguous_ = true;
  bool b_columns_contiguous_ = true;
};

// Whether the GPU has the instructions: compute capability 9.0 only.
bool has_low_matmul(const CardFacts& card);

// A tiling that is ready to launch on the stream of one GPU.
class LowMatmulLaunch {
 public:
  LowMatmulLaunch(CudaContext& context, const LowMatmulPlan& plan, const LowTiling& tiling);

  const std::string& name() const { return name_; }
  // The addresses are multiples of 16 bytes; `workspace` has the bytes that the tiling was a candidate for. The product
  // is added to `addend`, which has the layout of c and may be c, unless it is null.
  struct Addresses {
    const void* a;
    const void* b;
    const void* addend;
    void* c;
    void* workspace;
  };
  void launch(const Addresses& at);

 private:
  CudaContext& context_;
  std::string name_;
  LowMatmul parameters_;
  std::array<TensorMapShape, 3> maps_;
  std::array<const void*, 3> mapped_{};  // the addresses of the parameters' maps
  LaunchShape shape_;
  CUfunction function_;
};

}  // namespace ridgepoint::cuda
