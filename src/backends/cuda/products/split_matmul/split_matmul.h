// fp32 products on Hopper's tensor cores with the accuracy of fp32: the host side of split_matmul_wgmma.cu. One launch
// computes the whole batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/products/split_matmul/parameters.h"
#include "runtime/device/matmul_problem.h"

namespace ridgepoint::cuda {

// The rows and columns of a tile of the result, and the number of blocks.
struct SplitTiling {
  int rows = 0;
  int columns = 0;
  int blocks = 0;
  bool operator==(const SplitTiling&) const = default;

  // "128x64 in 132", and the reverse; nullopt for other text.
  std::string to_text() const;
  static std::optional<SplitTiling> from_text(std::string_view text);
};

// A product without addresses. Needs no GPU.
class SplitMatmulPlan {
 public:
  // The version of the kernels: a choice measured with another version is measured again.
  static constexpr int kVersion = 2;

  // nullopt if the kernels do not support the product: another dtype than fp32, vectors of four elements that are not
  // at multiples of 16 bytes, odd rows of the result, too many batch dimensions, sizes above 2^30.
  static std::optional<SplitMatmulPlan> of(const MatmulProblem& problem);

  // The tilings to measure on a GPU with so many multiprocessors; never empty.
  std::vector<SplitTiling> candidates(int multiprocessors) const;
  // Whether a tiling that was read from disk is a candidate.
  bool supports(const SplitTiling& tiling, int multiprocessors) const;
  // Enough for every candidate on every GPU: a fixed rule, which needs no GPU.
  std::size_t workspace_bytes() const;

  // The kernel's parameters without addresses.
  SplitMatmul parameters(const SplitTiling& tiling) const;
  // split_matmul_128x64_nt
  std::string function_name(const SplitTiling& tiling) const;

 private:
  std::int64_t tiles(const SplitTiling& tiling) const;
  std::int64_t steps() const;

  SplitMatmul product_;
  bool a_rows_contiguous_ = true;
  bool b_columns_contiguous_ = false;
};

// Whether the GPU has the instructions: compute capability 9.0 only.
bool has_split_matmul(const CardFacts& card);

// A tiling that is ready to launch on the stream of one GPU.
class SplitMatmulLaunch {
 public:
  SplitMatmulLaunch(CudaContext& context, const SplitMatmulPlan& plan, const SplitTiling& tiling);

  const std::string& name() const { return name_; }
  // The addresses are multiples of 16 bytes; `workspace` has plan.workspace_bytes(). The product is added to `addend`,
  // which has the layout of c and may be c, unless it is null.
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
  SplitMatmul parameters_;
  LaunchShape shape_;
  CUfunction function_;
};

}  // namespace ridgepoint::cuda
