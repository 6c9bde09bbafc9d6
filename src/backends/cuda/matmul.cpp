#include "backends/cuda/matmul.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "backends/cuda/matmul_algorithm.h"
#include "backends/cuda/matmul_mapping.h"
#include "backends/cuda/matmul_plan.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

std::string kernel_name(DType dtype) { return fmt::format("matmul_{}_cublaslt", name(dtype)); }

class MatmulKernel : public Kernel {
 public:
  MatmulKernel(CudaContext& context, const LtProblem& problem)
      : context_(context),
        plan_(context, problem),
        algorithm_(choose_algorithm(context, plan_, problem)),
        launches_(problem.launches),
        workspace_bytes_(problem.workspace_bytes()),
        name_(kernel_name(problem.dtype)) {
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(problem.dtype));
    for (LtProblem::Launch& launch : launches_) {
      launch = {launch.a * element_bytes, launch.b * element_bytes, launch.c * element_bytes};
    }
  }

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    context_.make_current();
    const auto* a = static_cast<const std::byte*>(arguments.inputs[1]);
    const auto* b = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* c = static_cast<std::byte*>(arguments.outputs[0]);
    if (!aligned(a) || !aligned(b) || !aligned(c)) [[unlikely]] {
      throw Error(fmt::format("{} was given an operand that does not begin at a multiple of {} bytes", name_,
                              kMatmulAlignmentBytes));
    }
    for (const LtProblem::Launch& at : launches_) {
      const cublasStatus_t status = plan_.launch(algorithm_, a + at.a, b + at.b, c + at.c, arguments.workspace);
      if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
        throw_cublaslt_error(status, "launch " + name_);
    }
  }

 private:
  static bool aligned(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kMatmulAlignmentBytes == 0;
  }

  CudaContext& context_;
  MatmulPlan plan_;
  cublasLtMatmulAlgo_t algorithm_;
  std::vector<LtProblem::Launch> launches_;  // offsets in bytes
  std::size_t workspace_bytes_;
  std::string name_;
};

// A sum over nothing.
class ZeroKernel : public Kernel {
 public:
  ZeroKernel(CudaContext& context, const TensorLayout& output)
      : context_(context),
        bytes_(static_cast<std::size_t>(output.shape.elements()) * size_bytes(output.dtype)),
        name_(kernel_name(output.dtype)) {}

  std::string_view name() const override { return name_; }
  void launch(const LaunchArguments& arguments) override { context_.fill_zero(arguments.outputs[0], bytes_); }

 private:
  CudaContext& context_;
  std::size_t bytes_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_kernel(CudaContext& context, const KernelSpec& spec) {
  const MatmulProblem problem = read_matmul_problem(spec);
  if (problem.flops() == 0) return std::make_unique<ZeroKernel>(context, spec.outputs[0]);
  return std::make_unique<MatmulKernel>(context, map_matmul(problem));
}

}  // namespace ridgepoint::cuda
