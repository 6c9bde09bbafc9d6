// fp32 products on Hopper's tensor cores, to the accuracy of fp32: the host side of split_matmul_wgmma.cu. The
// whole batch is one launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/kernels/split_matmul/parameters.h"
#include "runtime/matmul_problem.h"

namespace ridgepoint::cuda {

// The rows and columns of a tile of the result, and how many blocks compute the tiles.
struct SplitTiling {
  int rows = 0;
  int columns = 0;
  int blocks = 0;
  bool operator==(const SplitTiling&) const = default;

  // "128x64 in 132", and back; nullopt for anything else.
  std::string to_text() const;
  static std::optional<SplitTiling> from_text(std::string_view text);
};

// A product without addresses. Needs no card.
class SplitMatmulPlan {
 public:
  // Of the kernels: choices measured with another are measured anew.
  static constexpr int kVersion = 2;

  // nullopt for what the kernels cannot do: another dtype than fp32, vectors of four that do not lie at multiples of 16
  // bytes, odd rows of the result, too many batch dimensions, sizes past 2^30.
  static std::optional<SplitMatmulPlan> of(const MatmulProblem& problem);

  // Worth trying on a card with so many multiprocessors; none is empty.
  std::vector<SplitTiling> candidates(int multiprocessors) const;
  // Whether a tiling read from disk is one of them.
  bool accepts(const SplitTiling& tiling, int multiprocessors) const;
  // Enough for every candidate on every card, a fixed rule so that it is known without one.
  std::size_t workspace_bytes() const;

  // What the kernel is told, but for addresses.
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

// Whether the card has the instructions: compute capability 9.0 alone.
bool has_split_matmul(const CardFacts& card);

// A tiling made ready to launch on one card's stream.
class SplitMatmulLaunch {
 public:
  SplitMatmulLaunch(CudaContext& context, const SplitMatmulPlan& plan, const SplitTiling& tiling);

  const std::string& name() const { return name_; }
  // Addresses at multiples of 16 bytes; `workspace` holds plan.workspace_bytes().
  void launch(const void* a, const void* b, void* c, void* workspace);

 private:
  CudaContext& context_;
  std::string name_;
  SplitMatmul parameters_;
  LaunchShape shape_;
  CUfunction function_;
};

}  // namespace ridgepoint::cuda
