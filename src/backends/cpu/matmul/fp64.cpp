// fp64 products in plain loops: gradient checks and comparisons use them, so they need not be fast.
#include <algorithm>

#include "backends/cpu/matmul/matmul.h"
#include "core/threads/parallel.h"

namespace ridgepoint::cpu {
namespace {

class Fp64Matmul : public Kernel {
 public:
  explicit Fp64Matmul(const MatmulProblem& problem) : problem_(problem) {}

  std::string_view name() const override { return "matmul_fp64_loops"; }

  void launch(const LaunchArguments& arguments) override {
    if (problem_.adds) place_addend(problem_, arguments);
    const std::int64_t rows = problem_.c.rows;
    const std::int64_t row_flops = std::max<std::int64_t>(2 * problem_.c.columns * problem_.a.columns, 1);
    parallel_for(problem_.batch_count() * rows, std::max<std::int64_t>(kGrainFlops / row_flops, 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) multiply_row(arguments, i / rows, i % rows);
                 });
  }

 private:
  static constexpr std::int64_t kGrainFlops = 1 << 16;

  // An immediate has strides 0, so one element stands for all of them.
  static const double* first_element(const StridedMatrix& matrix, const void* address) {
    return matrix.immediate ? &*matrix.immediate : static_cast<const double*>(address);
  }

  void multiply_row(const LaunchArguments& arguments, std::int64_t batch, std::int64_t row) const {
    const StridedMatrix& a = problem_.a;
    const StridedMatrix& b = problem_.b;
    const StridedMatrix& c = problem_.c;
    const double* a_row = first_element(a, arguments.inputs[0]) + batch_offset(problem_, a, batch) + row * a.row_stride;
    const double* b_first = first_element(b, arguments.inputs[1]) + batch_offset(problem_, b, batch);
    double* c_row = static_cast<double*>(arguments.outputs[0]) + batch_offset(problem_, c, batch) + row * c.row_stride;
    if (!problem_.adds) std::fill_n(c_row, c.columns, 0.0);
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double factor = a_row[k * a.column_stride];
      const double* b_row = b_first + k * b.row_stride;
      for (std::int64_t n = 0; n < c.columns; ++n) c_row[n] += factor * b_row[n * b.column_stride];
    }
  }

  MatmulProblem problem_;
};

}  // namespace

std::unique_ptr<Kernel> make_fp64_matmul(const MatmulProblem& problem) { return std::make_unique<Fp64Matmul>(problem); }

}  // namespace ridgepoint::cpu
