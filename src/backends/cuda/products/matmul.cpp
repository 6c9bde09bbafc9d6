#include "backends/cuda/products/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/cuda/kernels/rates.h"
#include "backends/cuda/products/choice/plan.h"
#include "backends/cuda/products/choice/search.h"
#include "backends/cuda/products/operands/mapping.h"
#include "core/text/throw_error.h"
#include "core/types/float8.h"

namespace ridgepoint::cuda {
namespace {

std::string kernel_name(std::string_view precision) { return fmt::format("matmul_{}_cublaslt", precision); }

std::string kernel_name(const MatmulProblem& problem) {
  return kernel_name(problem.tf32 ? "tf32" : problem.scaled ? "fp8" : ridgepoint::name(problem.a.dtype));
}

// What cuBLASLt requires of products of 8-bit codes: the compute capability, and sizes that are multiples of 16.
constexpr int kLeastFloat8Capability = 89;
constexpr std::int64_t kFloat8Multiple = 16;
constexpr int kRowScalesCapability = 90;  // that alone has algorithms for scales of rows

void require_tensor_cores(const CardFacts& card, const MatmulProblem& problem) {
  const bool asks = problem.tf32 || problem.a.dtype == DType::bf16;
  if (!asks || card.capability.major >= 8) return;
  throw_error(ErrorKind::unsupported,
              "{} does not support {}, which needs compute capability 8.0; use --dtype fp32 or fp16", card.name,
              problem.tf32 ? "tf32" : "bf16");
}

void require_aligned(std::string_view kernel, const void* address) {
  if (reinterpret_cast<std::uintptr_t>(address) % kMatmulAlignmentBytes != 0) [[unlikely]] {
    throw_error("an operand of {} does not begin at a multiple of {} bytes", kernel, kMatmulAlignmentBytes);
  }
}

class LibraryKernel : public Kernel {
 public:
  LibraryKernel(std::unique_ptr<MatmulPlan> plan, LtProblem problem, const cublasLtMatmulAlgo_t& algorithm,
                CudaContext& context, std::size_t workspace_bytes)
      : context_(context),
        plan_(std::move(plan)),
        problem_(std::move(problem)),
        algorithm_(algorithm),
        workspace_bytes_(workspace_bytes),
        scaled_(is_float8(problem_.dtype)),
        name_(kernel_name(problem_.tf32 ? "tf32"
                          : scaled_     ? "fp8"
                                        : ridgepoint::name(problem_.dtype))) {}

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    const CudaContext::Scope scope(context_);
    void* c = arguments.outputs[0];
    MatmulPlan::Addresses at{.a = arguments.inputs[scaled_ ? 2 : 1],
                             .b = arguments.inputs[0],
                             .addend = problem_.adds ? arguments.inputs[scaled_ ? 4 : 2] : c,
                             .c = c,
                             .workspace = arguments.workspace};
    if (scaled_) {
      at.a_scale = arguments.inputs[3];
      at.b_scale = arguments.inputs[1];
    }
    for (const void* address : {at.a, at.b, at.addend, static_cast<const void*>(c)}) require_aligned(name_, address);
    const cublasStatus_t status = plan_->launch_all(algorithm_, problem_, at);
    if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
      throw_cublaslt_error(status, "launch " + name_);
  }

 private:
  CudaContext& context_;
  std::unique_ptr<MatmulPlan> plan_;
  LtProblem problem_;
  cublasLtMatmulAlgo_t algorithm_;
  std::size_t workspace_bytes_;
  bool scaled_;
  std::string name_;
};

// A launch of one of our own kernels.
template <class Launch>
class OwnKernel : public Kernel {
 public:
  template <class Plan, class Tiling>
  OwnKernel(CudaContext& context, const Plan& plan, const Tiling& tiling, bool adds, std::size_t workspace_bytes)
      : launch_(context, plan, tiling), adds_(adds), workspace_bytes_(workspace_bytes) {}

  std::string_view name() const override { return launch_.name(); }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    const typename Launch::Addresses at{.a = arguments.inputs[0],
                                        .b = arguments.inputs[1],
                                        .addend = adds_ ? arguments.inputs[2] : nullptr,
                                        .c = arguments.outputs[0],
                                        .workspace = arguments.workspace};
    for (const void* address : {at.a, at.b, at.addend, static_cast<const void*>(at.c)})
      require_aligned(launch_.name(), address);
    launch_.launch(at);
  }

 private:
  Launch launch_;
  bool adds_;
  std::size_t workspace_bytes_;
};

// A product with K = 0 is zero, or the addend.
class ZeroKernel : public Kernel {
 public:
  ZeroKernel(CudaContext& context, const TensorLayout& output, bool adds)
      : context_(context), adds_(adds), bytes_(bytes_of(output)), name_(kernel_name(ridgepoint::name(output.dtype))) {}

  std::string_view name() const override { return name_; }
  void launch(const LaunchArguments& arguments) override {
    if (!adds_) return context_.fill_zero(arguments.outputs[0], bytes_);
    if (arguments.inputs[2] != arguments.outputs[0]) context_.copy(arguments.outputs[0], arguments.inputs[2], bytes_);
  }

 private:
  // With the padding of its rows.
  static std::size_t bytes_of(const TensorLayout& output) {
    std::int64_t elements = output.shape.elements();
    for (int axis = 0; axis < output.shape.rank() && elements > 0; ++axis)
      elements = std::max(elements, output.shape[axis] * output.strides[static_cast<std::size_t>(axis)]);
    return static_cast<std::size_t>(elements) * size_bytes(output.dtype);
  }

  CudaContext& context_;
  bool adds_;
  std::size_t bytes_;
  std::string name_;
};

bool is_contiguous_along_k(const MatmulProblem& problem) {
  const std::optional<BlasLayout> a = blas_layout(problem.a);
  const std::optional<BlasLayout> b = blas_layout(problem.b);
  return a && b && !a->transposed && b->transposed;
}

// Of operands and result in 16 bits: whether the rows of each, or where these are contiguous the columns, begin at
// multiples of 16 bytes.
ProductRate half_rate_of(const MatmulProblem& problem) {
  const auto is_aligned = [](std::int64_t elements, DType dtype) {
    constexpr std::int64_t kAlignmentBytes = 16;
    return elements * static_cast<std::int64_t>(size_bytes(dtype)) % kAlignmentBytes == 0;
  };
  for (const StridedMatrix& matrix : {problem.a, problem.b, problem.c}) {
    const std::optional<BlasLayout> blas = blas_layout(matrix);
    if (!blas || (blas->transposed ? matrix.columns : matrix.rows) <= 1) continue;
    if (!is_aligned(blas->leading, matrix.dtype)) return kUnalignedHalfProductRate;
  }
  return kHalfProductRate;
}

// The problem in the terms of both implementations.
struct Mapping {
  explicit Mapping(const CardFacts& card, const MatmulProblem& problem)
      : library(map_matmul(problem)),
        own(OwnMatmuls::of(card, problem)),
        workspace_bytes(std::max(library.workspace_bytes(), own.workspace_bytes())) {}

  LtProblem library;
  OwnMatmuls own;
  std::size_t workspace_bytes;
};

// Of the fastest kernels that compute it: which one does is measured.
KernelRate rate_of(const CardFacts& card, const MatmulProblem& problem) {
  if (OwnMatmuls::of(card, problem).split) return kSplitProductRate;
  if (problem.tf32) {
    const bool is_contiguous = is_contiguous_along_k(problem);
    return is_contiguous || card.capability.number() != 90 ? kTf32ProductRate : kStridedTf32ProductRate;
  }
  switch (problem.a.dtype) {
    case DType::fp32: return kFp32ProductRate;
    case DType::bf16:
    case DType::fp16: return half_rate_of(problem);
    case DType::e4m3:
    case DType::e5m2: return kFp8ProductRate;
    default: return {};
  }
}

}  // namespace

bool is_library_product(const CardFacts& card, const Graph& graph, const Node& node) {
  if (op_class(node.op) == OpClass::contraction) return true;
  if (node.op != Op::scaled_matmul || card.capability.number() < kLeastFloat8Capability) return false;
  const TensorType& a = graph.type(node.inputs[0]);
  const TensorType& b = graph.type(node.inputs[2]);
  const auto is_taken = [](std::int64_t size) { return size > 0 && size % kFloat8Multiple == 0; };
  const int scale_ranks[] = {graph.type(node.inputs[1]).shape.rank(), graph.type(node.inputs[3]).shape.rank()};
  if (scale_ranks[0] != scale_ranks[1]) return false;
  if (scale_ranks[0] > 0 && card.capability.number() != kRowScalesCapability) return false;
  const bool are_gradients = a.dtype == DType::e5m2 && b.dtype == DType::e5m2;
  return !are_gradients && is_taken(a.shape[0]) && is_taken(a.shape[1]) && is_taken(b.shape[0]);
}

std::unique_ptr<Kernel> make_matmul_kernel(CudaContext& context, const KernelSpec& spec) {
  const CudaContext::Scope scope(context);
  const MatmulProblem problem = read_matmul_problem(spec);
  require_tensor_cores(context.card(), problem);
  if (problem.flops() == 0) return std::make_unique<ZeroKernel>(context, spec.outputs[0], problem.adds);
  Mapping mapped(context.card(), problem);
  auto plan = std::make_unique<MatmulPlan>(context, mapped.library);
  const MatmulAlgorithm algorithm = choose_algorithm(context, *plan, mapped.library, mapped.own);
  if (const auto* tiling = std::get_if<SplitTiling>(&algorithm)) {
    return std::make_unique<OwnKernel<SplitMatmulLaunch>>(context, *mapped.own.split, *tiling, problem.adds,
                                                          mapped.workspace_bytes);
  }
  if (const auto* tiling = std::get_if<LowTiling>(&algorithm)) {
    return std::make_unique<OwnKernel<LowMatmulLaunch>>(context, *mapped.own.low, *tiling, problem.adds,
                                                        mapped.workspace_bytes);
  }
  return std::make_unique<LibraryKernel>(std::move(plan), std::move(mapped.library),
                                         std::get<cublasLtMatmulAlgo_t>(algorithm), context, mapped.workspace_bytes);
}

KernelOutline outline_matmul(const CardFacts& card, const KernelSpec& spec) {
  const MatmulProblem problem = read_matmul_problem(spec);
  require_tensor_cores(card, problem);
  const std::size_t bytes = problem.flops() == 0 ? 0 : Mapping(card, problem).workspace_bytes;
  return {kernel_name(problem), bytes, rate_of(card, problem)};
}

}  // namespace ridgepoint::cuda
