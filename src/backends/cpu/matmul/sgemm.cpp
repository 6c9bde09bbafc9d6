// fp32 products by oneDNN's SGEMM, one single-threaded call for each tile. Compared with its matmul primitive (which
// divides the work itself) this is 5 to 15 % faster on the shapes of a Transformer, twice as fast where a row stride is
// a multiple of 3072 elements, and a quarter faster on the small matrices of attention (bench/matmul_bench.cpp).
#include <dnnl.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/matmul/matmul.h"
#include "backends/cpu/matmul/onednn.h"
#include "backends/cpu/matmul/pieces.h"
#include "backends/cpu/tile/functions/functions.h"
#include "core/text/throw_error.h"
#include "core/threads/parallel.h"

namespace ridgepoint::cpu {
namespace {

// Elements converted by one thread before others take more.
constexpr std::int64_t kGrainElements = 1 << 14;

// The problem with size 1 in the batch dimensions along which `matrix` is broadcast.
MatmulProblem distinct_batches(const MatmulProblem& problem, const StridedMatrix& matrix) {
  MatmulProblem distinct = problem;
  for (std::size_t axis = 0; axis < distinct.batch.size(); ++axis) {
    if (matrix.batch_strides[axis] == 0) distinct.batch[axis] = std::min<std::int64_t>(distinct.batch[axis], 1);
  }
  return distinct;
}

std::int64_t packed_elements(const MatmulProblem& problem, const StridedMatrix& matrix) {
  return distinct_batches(problem, matrix).batch_count() * matrix.rows * matrix.columns;
}

// A matrix taken apart into lines: its columns where their elements are contiguous and those of its rows are not,
// otherwise its rows.
struct Lines {
  bool are_columns = false;
  std::int64_t count = 0;   // of one matrix
  std::int64_t length = 0;  // elements
  std::int64_t stride = 0;  // from a line to the next
  std::int64_t element_stride = 0;
};

Lines lines_of(const StridedMatrix& matrix) {
  if (matrix.row_stride == 1 && matrix.column_stride != 1)
    return {true, matrix.columns, matrix.rows, matrix.column_stride, matrix.row_stride};
  return {false, matrix.rows, matrix.columns, matrix.row_stride, matrix.column_stride};
}

// Operands that SGEMM cannot read are packed: copied as fp32 with the lines one after another, with broadcast batch
// dimensions (stride 0) stored once.
StridedMatrix packed_layout(const MatmulProblem& problem, const StridedMatrix& matrix) {
  const MatmulProblem distinct = distinct_batches(problem, matrix);
  const Lines lines = lines_of(matrix);
  StridedMatrix packed = matrix;
  packed.dtype = DType::fp32;
  packed.immediate.reset();
  packed.row_stride = lines.are_columns ? 1 : lines.length;
  packed.column_stride = lines.are_columns ? lines.length : 1;
  std::int64_t stride = matrix.rows * matrix.columns;
  for (std::size_t axis = problem.batch.size(); axis-- > 0;) {
    packed.batch_strides[axis] = matrix.batch_strides[axis] == 0 ? 0 : stride;
    stride *= distinct.batch[axis];
  }
  return packed;
}

// Converts between a matrix and its packed copy, in the direction that `convert` has.
template <typename Convert>
void for_each_line(const MatmulProblem& problem, const StridedMatrix& matrix, const Convert& convert) {
  const MatmulProblem distinct = distinct_batches(problem, matrix);
  const Lines lines = lines_of(matrix);
  const std::int64_t grain = std::max<std::int64_t>(kGrainElements / std::max<std::int64_t>(lines.length, 1), 1);
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(matrix.dtype));
  parallel_for(distinct.batch_count() * lines.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t first = batch_offset(distinct, matrix, line / lines.count) + line % lines.count * lines.stride;
      convert(first * element_bytes, line * lines.length, lines);
    }
  });
}

// `source` is element 0 of `matrix` (null for an immediate); `packed` holds packed_elements().
void pack_matrices(const MatmulProblem& problem, const StridedMatrix& matrix, const void* source, float* packed) {
  if (matrix.immediate) {
    std::fill_n(packed, packed_elements(problem, matrix), static_cast<float>(*matrix.immediate));
    return;
  }
  const tile::Function load = tile::load_function(matrix.dtype, lines_of(matrix).element_stride);
  for_each_line(problem, matrix, [&](std::int64_t byte, std::int64_t element, const Lines& lines) {
    load(packed + element, static_cast<const std::byte*>(source) + byte, nullptr, nullptr, lines.length,
         lines.element_stride);
  });
}

// Rounds packed matrices to the dtype of `matrix` and writes them with its strides, none of which may be 0.
void unpack_matrices(const MatmulProblem& problem, const StridedMatrix& matrix, const float* packed, void* target) {
  const tile::Function store = tile::store_function(matrix.dtype, lines_of(matrix).element_stride);
  for_each_line(problem, matrix, [&](std::int64_t byte, std::int64_t element, const Lines& lines) {
    store(static_cast<std::byte*>(target) + byte, packed + element, nullptr, nullptr, lines.length,
          lines.element_stride);
  });
}

// With this many matrices for each thread an uneven last round costs little, and matrices need no tiling.
constexpr std::int64_t kMatricesPerThread = 8;
// The tiling that gives all threads equal work. SGEMM packs its rows of a and columns of b for each tile.
MatmulGrid choose_tiles(const MatmulProblem& problem) {
  const std::int64_t threads = thread_count();
  const std::int64_t batches = std::max<std::int64_t>(problem.batch_count(), 1);
  if (batches >= kMatricesPerThread * threads) return {};
  const std::int64_t most = std::max<std::int64_t>(problem.flops() / batches / kMinTileFlops, 1);
  return choose_grid(problem.c.rows, problem.c.columns, std::min(threads / std::gcd(threads, batches), most));
}

class SgemmMatmul : public Kernel {
 public:
  explicit SgemmMatmul(const MatmulProblem& problem) : problem_(problem), grid_(choose_tiles(problem)) {
    a_ = place(problem.a);
    b_ = place(problem.b);
    c_ = problem.c.dtype == DType::fp32 ? Operand{problem.c} : pack(problem.c);
    // A single row has any row stride, and one of no elements 0.
    c_.blas.leading = std::max({c_.matrix.row_stride, c_.matrix.columns, std::int64_t{1}});
  }

  std::string_view name() const override { return workspace_bytes_ == 0 ? "matmul_sgemm" : "matmul_packed_sgemm"; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    if (problem_.adds) place_addend(problem_, arguments);
    if (problem_.flops() == 0) return problem_.adds ? void() : clear_output(arguments);
    const float* a = read(a_, problem_.a, arguments.inputs[0], arguments.workspace);
    const float* b = read(b_, problem_.b, arguments.inputs[1], arguments.workspace);
    float* c = static_cast<float*>(c_.packed ? packed_address(c_, arguments.workspace) : arguments.outputs[0]);
    if (c_.packed && problem_.adds) pack_matrices(problem_, problem_.c, arguments.outputs[0], c);
    const std::int64_t tiles = problem_.batch_count() * grid_.row_tiles * grid_.column_tiles;
    parallel_for(tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile) multiply_tile(tile, a, b, c);
    });
    if (c_.packed) unpack_matrices(problem_, problem_.c, c, arguments.outputs[0]);
  }

 private:
  // A matrix as SGEMM reads it: in the node's own memory, or packed into the workspace.
  struct Operand {
    StridedMatrix matrix;
    bool packed = false;
    std::size_t workspace_offset = 0;
    BlasLayout blas = {};
  };

  Operand pack(const StridedMatrix& matrix) {
    const Operand operand{packed_layout(problem_, matrix), true, workspace_bytes_};
    workspace_bytes_ += static_cast<std::size_t>(packed_elements(problem_, matrix)) * sizeof(float);
    return operand;
  }

  Operand place(const StridedMatrix& matrix) {
    const bool direct = matrix.dtype == DType::fp32 && blas_layout(matrix).has_value();
    Operand operand = direct ? Operand{matrix} : pack(matrix);
    operand.blas = *blas_layout(operand.matrix);
    return operand;
  }

  static void* packed_address(const Operand& operand, void* workspace) {
    return static_cast<std::byte*>(workspace) + operand.workspace_offset;
  }

  const float* read(const Operand& operand, const StridedMatrix& matrix, const void* source, void* workspace) const {
    if (!operand.packed) return static_cast<const float*>(source);
    auto* packed = static_cast<float*>(packed_address(operand, workspace));
    pack_matrices(problem_, matrix, source, packed);
    return packed;
  }

  // A sum of no terms is 0, whose bits are 0 in every dtype.
  void clear_output(const LaunchArguments& arguments) const {
    const std::int64_t elements = problem_.batch_count() * problem_.c.rows * problem_.c.row_stride;
    if (elements == 0 || problem_.c.columns == 0) return;
    std::memset(arguments.outputs[0], 0, static_cast<std::size_t>(elements) * size_bytes(problem_.c.dtype));
  }

  void multiply_tile(std::int64_t tile, const float* a, const float* b, float* c) const {
    const std::int64_t tiles = grid_.row_tiles * grid_.column_tiles;
    const std::int64_t batch = tile / tiles;
    const MatmulRange rows =
        tile_range(problem_.c.rows, kMatmulRowStep, grid_.row_tiles, tile % tiles / grid_.column_tiles);
    const MatmulRange columns =
        tile_range(problem_.c.columns, kMatmulColumnStep, grid_.column_tiles, tile % grid_.column_tiles);
    if (rows.begin == rows.end || columns.begin == columns.end) return;
    a += batch_offset(problem_, a_.matrix, batch) + rows.begin * a_.matrix.row_stride;
    b += batch_offset(problem_, b_.matrix, batch) + columns.begin * b_.matrix.column_stride;
    c += batch_offset(problem_, c_.matrix, batch) + rows.begin * c_.matrix.row_stride + columns.begin;
    const OneThread one_thread;
    const dnnl_status_t status =
        dnnl_sgemm(a_.blas.transposed ? 'T' : 'N', b_.blas.transposed ? 'T' : 'N', rows.end - rows.begin,
                   columns.end - columns.begin, problem_.a.columns, 1.0F, a, a_.blas.leading, b, b_.blas.leading,
                   problem_.adds ? 1.0F : 0.0F, c, c_.blas.leading);
    if (status != dnnl_success)
      throw_error("oneDNN failed at a {} x {} x {} matrix product (status {})", problem_.c.rows, problem_.c.columns,
                  problem_.a.columns, static_cast<int>(status));
  }

  MatmulProblem problem_;
  MatmulGrid grid_;
  std::size_t workspace_bytes_ = 0;
  Operand a_;
  Operand b_;
  Operand c_;
};

}  // namespace

std::unique_ptr<Kernel> make_sgemm_matmul(const MatmulProblem& problem) {
  return std::make_unique<SgemmMatmul>(problem);
}

}  // namespace ridgepoint::cpu
