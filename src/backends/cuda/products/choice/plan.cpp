#include "backends/cuda/products/choice/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "backends/cuda/products/choice/tiles.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::fp64: return CUDA_R_64F;
    case DType::fp32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::fp16: return CUDA_R_16F;
    case DType::e4m3: return CUDA_R_8F_E4M3;
    case DType::e5m2: return CUDA_R_8F_E5M2;
    default: throw_error("there is no matmul for {}", name(dtype));
  }
}

// Gives each row of both operands a scale. The addresses are for the heuristic, which reads nothing there.
void scale_rows(cublasLtMatmulDesc_t operation) {
  constexpr std::size_t kLeastVersion = 120900;
  if (cublaslt().cublasLtGetVersion() < kLeastVersion) {
    throw Error("products in fp8 whose rows have scales of their own need the cuBLASLt of CUDA 12.9 or newer",
                ErrorKind::unsupported);
  }
  const auto set = [&](cublasLtMatmulDescAttributes_t which, const auto& value) {
    check(cublaslt().cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value), "describe a matmul");
  };
  for (const auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
    set(which, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
  for (const auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
    set(which, std::uintptr_t{kMatmulAlignmentBytes});
}

LtObject<cublasLtMatmulDesc_t> make_operation(const LtProblem& problem) {
  const bool twice = problem.dtype == DType::fp64;
  const cublasComputeType_t single = problem.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t made = nullptr;
  check(
      cublaslt().cublasLtMatmulDescCreate(&made, twice ? CUBLAS_COMPUTE_64F : single, twice ? CUDA_R_64F : CUDA_R_32F),
      "describe a matmul");
  LtObject<cublasLtMatmulDesc_t> operation(made);
  const auto set = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublaslt().cublasLtMatmulDescSetAttribute(made, which, &value, sizeof value), "describe a matmul");
  };
  // Of products in forward: quantisation costs them a hundred times the accuracy that fast sums do. Products with
  // gradients, in e5m2, move their sums to fp32 registers every few steps.
  if (problem.dtype == DType::e4m3 && problem.a_dtype == DType::e4m3) {
    const std::int8_t fast = 1;
    check(cublaslt().cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast),
          "describe a matmul");
  }
  if (problem.scales_rows) scale_rows(made);
  set(CUBLASLT_MATMUL_DESC_TRANSA, problem.a.transposed);
  set(CUBLASLT_MATMUL_DESC_TRANSB, problem.b.transposed);
  return operation;
}

LtObject<cublasLtMatrixLayout_t> make_layout(const LtProblem& problem, const LtMatrix& matrix, DType dtype) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublaslt().cublasLtMatrixLayoutCreate(&made, data_type(dtype), static_cast<std::uint64_t>(matrix.rows),
                                              static_cast<std::uint64_t>(matrix.columns), matrix.leading),
        "describe a matrix");
  LtObject<cublasLtMatrixLayout_t> layout(made);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t which, const auto& value) {
    check(cublaslt().cublasLtMatrixLayoutSetAttribute(made, which, &value, sizeof value), "describe a matrix");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(problem.batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride);
  return layout;
}

}  // namespace

MatmulPlan::MatmulPlan(CudaContext& context, const LtProblem& problem)
    : library_(cublaslt()),
      handle_(cublaslt_handle(context)),
      stream_(context.stream()),
      operation_(make_operation(problem)),
      a_(make_layout(problem, problem.a, problem.a_dtype)),
      b_(make_layout(problem, problem.b, problem.dtype)),
      c_(make_layout(problem, problem.c, problem.result_dtype)),
      workspace_bytes_(problem.workspace_bytes()),
      alignment_bytes_(static_cast<std::uint32_t>(problem.alignment_bytes)) {
  if (problem.dtype == DType::fp64) {
    one_.twice = 1.0;
    beta_.twice = problem.adds ? 1.0 : 0.0;
  } else {
    one_.single = 1.0F;
    beta_.single = problem.adds ? 1.0F : 0.0F;
  }
}

std::vector<cublasLtMatmulAlgo_t> MatmulPlan::candidates(int most) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(library_.cublasLtMatmulPreferenceCreate(&made), "describe a preference");
  const LtObject<cublasLtMatmulPreference_t> preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    check(library_.cublasLtMatmulPreferenceSetAttribute(made, which, &value, sizeof value), "describe a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes_));
  for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(which, alignment_bytes_);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status = library_.cublasLtMatmulAlgoGetHeuristic(
      handle_, operation_.get(), a_.get(), b_.get(), c_.get(), c_.get(), made, most, results.data(), &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "propose algorithms for a matmul");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

std::vector<cublasLtMatmulAlgo_t> MatmulPlan::variants(std::span<const cublasLtMatmulAlgo_t> seeds,
                                                       const LtProblem& problem, bool splits,
                                                       int multiprocessors) const {
  constexpr std::uint32_t kNoReduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  constexpr std::uint32_t kReduceInOrder = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  // Tiles and parts, and kernels of each. The estimate is of products in 16 bits.
  const bool is_estimated = size_bytes(problem.dtype) == 2;
  const std::size_t most_divisions = is_estimated ? 12 : SIZE_MAX;
  const std::size_t most_kernels = is_estimated ? 3 : SIZE_MAX;
  std::vector<std::pair<cublasLtMatmulAlgo_t, std::vector<std::uint32_t>>> kernels;  // and their tiles
  std::set<std::pair<std::int32_t, std::uint32_t>> covered;                          // id and stages of seeds
  std::set<std::tuple<double, std::uint32_t, std::int32_t>> divisions;               // expected cycles, tile and parts
  for (const cublasLtMatmulAlgo_t& seed : seeds) {
    const auto id = configured<std::int32_t>(seed, CUBLASLT_ALGO_CONFIG_ID);
    const auto stages = configured<std::uint32_t>(seed, CUBLASLT_ALGO_CONFIG_STAGES_ID);
    if (!covered.emplace(id, stages).second) continue;
    kernels.emplace_back(seed, tiles(seed));
    for (const std::uint32_t tile : kernels.back().second) {
      const std::optional<LtTile> size = lt_tile(tile);
      for (const std::int32_t parts : {1, 2, 3, 4, 6, 8, 12, 16}) {
        if (parts > 1 && !splits) break;
        const double cycles = size ? expected_cycles(problem, *size, parts, multiprocessors) : INFINITY;
        divisions.emplace(cycles, tile, parts);
      }
    }
  }
  std::vector<cublasLtMatmulAlgo_t> found;
  std::size_t taken = 0;
  for (const auto& [cycles, tile, parts] : divisions) {
    if (taken == most_divisions) break;
    std::size_t of_division = 0;
    for (const auto& [seed, tiles_of_seed] : kernels) {
      if (of_division == most_kernels) break;
      if (std::ranges::find(tiles_of_seed, tile) == tiles_of_seed.end()) continue;
      cublasLtMatmulAlgo_t variant = seed;
      configure(variant, CUBLASLT_ALGO_CONFIG_TILE_ID, tile);
      configure(variant, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, parts);
      configure(variant, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, parts == 1 ? kNoReduction : kReduceInOrder);
      if (std::ranges::any_of(seeds, [&](const auto& ranked) { return std::ranges::equal(ranked.data, variant.data); }))
        continue;
      if (!supports(variant)) continue;
      found.push_back(variant);
      ++of_division;
    }
    if (of_division > 0) ++taken;
  }
  return found;
}

template <typename T>
T MatmulPlan::configured(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) const {
  T value{};
  std::size_t written = 0;
  check(library_.cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof value, &written),
        "read an algorithm's settings");
  return value;
}

template <typename T>
void MatmulPlan::configure(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which, T value) const {
  check(library_.cublasLtMatmulAlgoConfigSetAttribute(&algorithm, which, &value, sizeof value),
        "change an algorithm's settings");
}

std::vector<std::uint32_t> MatmulPlan::tiles(const cublasLtMatmulAlgo_t& algorithm) const {
  std::size_t bytes = 0;
  if (library_.cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_TILE_IDS, nullptr, 0, &bytes) !=
          CUBLAS_STATUS_SUCCESS ||
      bytes == 0) {
    return {configured<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID)};
  }
  std::vector<std::uint32_t> ids(bytes / sizeof(std::uint32_t));
  check(library_.cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_TILE_IDS, ids.data(), bytes, &bytes),
        "read an algorithm's tiles");
  return ids;
}

bool MatmulPlan::supports(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = library_.cublasLtMatmulAlgoCheck(handle_, operation_.get(), a_.get(), b_.get(),
                                                                 c_.get(), c_.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes_;
}

void MatmulPlan::set_scales(const Addresses& at) const {
  const auto set = [&](const void*& known, const void* address, cublasLtMatmulDescAttributes_t which) {
    if (known == address) return;
    check(library_.cublasLtMatmulDescSetAttribute(operation_.get(), which, &address, sizeof address),
          "set the scale of an operand");
    known = address;
  };
  set(a_scale_, at.a_scale, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
  set(b_scale_, at.b_scale, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
}

cublasStatus_t MatmulPlan::launch_all(const cublasLtMatmulAlgo_t& algorithm, const LtProblem& problem,
                                      const Addresses& at) const {
  set_scales(at);
  const auto bytes = static_cast<std::int64_t>(size_bytes(problem.dtype));
  const auto result_bytes = static_cast<std::int64_t>(size_bytes(problem.result_dtype));
  for (const LtProblem::Launch& offsets : problem.launches) {
    const cublasStatus_t status =
        launch(algorithm, {static_cast<const std::byte*>(at.a) + offsets.a * bytes,
                           static_cast<const std::byte*>(at.b) + offsets.b * bytes,
                           static_cast<const std::byte*>(at.addend) + offsets.c * result_bytes,
                           static_cast<std::byte*>(at.c) + offsets.c * result_bytes, at.workspace});
    if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
      return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace ridgepoint::cuda
