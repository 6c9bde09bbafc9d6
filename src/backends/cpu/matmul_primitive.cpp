// Products by oneDNN's matmul primitive, which has kernels for matrix units that its BLAS interface has not.
#include <array>
#include <dnnl.hpp>
#include <string>

#include "backends/cpu/matmul.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cpu {
namespace {

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::memory::desc descriptor(const MatmulProblem& problem, const StridedMatrix& matrix) {
  dnnl::memory::dims sizes;
  dnnl::memory::dims strides;
  // Broadcast batch dimensions are of size 1 to oneDNN.
  for (std::size_t axis = 0; axis < problem.batch.size(); ++axis) {
    const bool broadcast = matrix.batch_strides[axis] == 0;
    sizes.push_back(broadcast ? 1 : problem.batch[axis]);
    strides.push_back(broadcast ? matrix.rows * matrix.columns : matrix.batch_strides[axis]);
  }
  const BlasLayout blas = *blas_layout(matrix);
  sizes.insert(sizes.end(), {matrix.rows, matrix.columns});
  strides.insert(strides.end(), {blas.transposed ? 1 : blas.leading, blas.transposed ? blas.leading : 1});
  const bool wide = matrix.dtype == DType::fp32;
  return {sizes, wide ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16, strides};
}

// Goes through the C interface to run: the C++ one builds a list of arguments on the heap at every call.
class PrimitiveMatmul : public Kernel {
 public:
  PrimitiveMatmul(const MatmulProblem& problem, const dnnl::matmul::primitive_desc& description)
      : primitive_(description),
        stream_(engine()),
        memory_{dnnl::memory(description.src_desc(), engine(), DNNL_MEMORY_NONE),
                dnnl::memory(description.weights_desc(), engine(), DNNL_MEMORY_NONE),
                dnnl::memory(description.dst_desc(), engine(), DNNL_MEMORY_NONE),
                dnnl::memory(description.scratchpad_desc(), engine(), DNNL_MEMORY_NONE)},
        workspace_bytes_(description.scratchpad_desc().get_size()),
        name_("matmul_" + std::string(ridgepoint::name(problem.c.dtype)) + "_primitive") {
    constexpr std::array kSlots = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    for (std::size_t i = 0; i < kSlots.size(); ++i) arguments_[i] = {kSlots[i], memory_[i].get()};
  }

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    const std::array<void*, 4> addresses = {arguments.inputs[0], arguments.inputs[1], arguments.outputs[0],
                                            arguments.workspace};
    for (std::size_t i = 0; i < addresses.size(); ++i) memory_[i].set_data_handle(addresses[i]);
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
    if (status != dnnl_success) throw Error(name_ + ": oneDNN failed with status " + std::to_string(status));
  }

 private:
  dnnl::matmul primitive_;
  dnnl::stream stream_;
  std::array<dnnl::memory, 4> memory_;
  std::array<dnnl_exec_arg_t, 4> arguments_{};
  std::size_t workspace_bytes_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Kernel> make_primitive_matmul(const MatmulProblem& problem) {
  const DType dtype = problem.c.dtype;
  if (dtype != DType::fp32 && dtype != DType::bf16) return nullptr;
  if (problem.flops() == 0 || !blas_layout(problem.a) || !blas_layout(problem.b)) return nullptr;
  try {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::desc operation(descriptor(problem, problem.a), descriptor(problem, problem.b),
                                       descriptor(problem, problem.c));
    const dnnl::matmul::primitive_desc description(operation, attributes, engine());
    if (std::string_view(description.impl_info_str()).starts_with("ref")) return nullptr;
    return std::make_unique<PrimitiveMatmul>(problem, description);
  } catch (const dnnl::error&) {  // how oneDNN says that it has none
    return nullptr;
  }
}

}  // namespace ridgepoint::cpu
