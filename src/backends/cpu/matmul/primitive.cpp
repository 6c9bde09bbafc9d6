// Products by oneDNN's matmul primitive, which uses matrix units (AMX) that its BLAS interface does not use.
#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "backends/cpu/matmul/matmul.h"
#include "backends/cpu/matmul/onednn.h"
#include "backends/cpu/matmul/pieces.h"
#include "core/rounding.h"
#include "core/threads/parallel.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cpu {
namespace {

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::memory::desc descriptor(const MatmulProblem& problem, const StridedMatrix& matrix) {
  dnnl::memory::dims sizes;
  dnnl::memory::dims strides;
  // oneDNN broadcasts batch dimensions of size 1.
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

dnnl::matmul::primitive_desc describe(const MatmulProblem& problem) {
  dnnl::primitive_attr attributes;
  if (problem.adds) {
    dnnl::post_ops adds_to_result;
    adds_to_result.append_sum(1.0F);
    attributes.set_post_ops(adds_to_result);
  }
  return describe_matmul(engine(), descriptor(problem, problem.a), descriptor(problem, problem.b),
                         descriptor(problem, problem.c), attributes);
}

// The product of one thread.
class PieceProduct {
 public:
  // Throws dnnl::error if oneDNN has only its reference kernel.
  explicit PieceProduct(const MatmulPiece& piece) : PieceProduct(piece, describe(piece.problem)) {}

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  dnnl_status_t run(const LaunchArguments& arguments, std::byte* scratch) {
    return arguments_.execute(primitive_, stream_, static_cast<std::byte*>(arguments.inputs[0]) + offset_bytes_[0],
                              static_cast<std::byte*>(arguments.inputs[1]) + offset_bytes_[1],
                              static_cast<std::byte*>(arguments.outputs[0]) + offset_bytes_[2], scratch);
  }

 private:
  PieceProduct(const MatmulPiece& piece, const dnnl::matmul::primitive_desc& description)
      : primitive_(description),
        stream_(engine()),
        arguments_(description, engine()),
        scratch_bytes_(description.scratchpad_desc().get_size()) {
    const auto operand_bytes = static_cast<std::int64_t>(size_bytes(piece.problem.a.dtype));
    const auto result_bytes = static_cast<std::int64_t>(size_bytes(piece.problem.c.dtype));
    offset_bytes_ = {piece.a_offset * operand_bytes, piece.b_offset * operand_bytes, piece.c_offset * result_bytes};
  }

  dnnl::matmul primitive_;
  dnnl::stream stream_;
  MatmulArguments arguments_;
  std::array<std::int64_t, 3> offset_bytes_{};
  std::size_t scratch_bytes_;
};

// One single-threaded product for each thread at the time of construction; any number of threads can run them.
class PrimitiveMatmul : public Kernel {
 public:
  explicit PrimitiveMatmul(const MatmulProblem& problem)
      : problem_(problem), name_("matmul_" + std::string(ridgepoint::name(problem.a.dtype)) + "_primitive") {
    const OneThread one_thread;
    for (const MatmulPiece& piece : split_into_pieces(problem, thread_count(), kMinTileFlops)) {
      products_.emplace_back(piece);
      scratch_bytes_ = std::max(scratch_bytes_, round_up(products_.back().scratch_bytes(), kAlignment));
    }
  }

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return products_.size() * scratch_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    if (problem_.adds) place_addend(problem_, arguments);
    parallel_for(static_cast<std::int64_t>(products_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      const OneThread one_thread;
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        const dnnl_status_t status =
            products_[i].run(arguments, static_cast<std::byte*>(arguments.workspace) + i * scratch_bytes_);
        if (status != dnnl_success) throw Error(name_ + ": oneDNN failed with status " + std::to_string(status));
      }
    });
  }

 private:
  static constexpr std::size_t kAlignment = 64;

  MatmulProblem problem_;
  std::vector<PieceProduct> products_;
  std::size_t scratch_bytes_ = 0;  // of one product
  std::string name_;
};

}  // namespace

std::unique_ptr<Kernel> make_primitive_matmul(const MatmulProblem& problem) {
  const DType dtype = problem.a.dtype;
  if (dtype != DType::fp32 && dtype != DType::bf16) return nullptr;
  if (problem.flops() == 0 || !blas_layout(problem.a) || !blas_layout(problem.b)) return nullptr;
  try {
    return std::make_unique<PrimitiveMatmul>(problem);
  } catch (const dnnl::error&) {  // oneDNN has no such kernel
    return nullptr;
  }
}

}  // namespace ridgepoint::cpu
