// The products of one Transformer layer, forward and both gradients, by each implementation of the CPU back end: SGEMM
// over tiles (its choice for fp32) and oneDNN's matmul primitive. The counter is operations per second, to compare with
// the square products. A name is the product and its shape.
// build/bench/matmul_bench --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "backends/cpu/device.h"
#include "backends/cpu/matmul/matmul.h"

namespace ridgepoint {
namespace {

StridedMatrix dense(std::int64_t rows, std::int64_t columns) {
  StridedMatrix matrix;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.row_stride = columns;
  matrix.column_stride = 1;
  return matrix;
}

StridedMatrix transposed(StridedMatrix matrix) {
  std::swap(matrix.rows, matrix.columns);
  std::swap(matrix.row_stride, matrix.column_stride);
  return matrix;
}

StridedMatrix batched(StridedMatrix matrix, std::int64_t outer, std::int64_t inner) {
  matrix.batch_strides = {outer, inner};
  return matrix;
}

struct Memory {
  explicit Memory(std::size_t size) : bytes(size), address(cpu::map_pages(size)) { std::memset(address, 0, size); }
  ~Memory() { cpu::unmap_pages(address, bytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::size_t bytes;
  void* address;
};

std::size_t span_bytes(const MatmulProblem& problem, const StridedMatrix& matrix) {
  std::int64_t last = (matrix.rows - 1) * matrix.row_stride + (matrix.columns - 1) * matrix.column_stride;
  for (std::size_t axis = 0; axis < problem.batch.size(); ++axis) {
    last += (problem.batch[axis] - 1) * matrix.batch_strides[axis];
  }
  return static_cast<std::size_t>(last + 1) * size_bytes(matrix.dtype);
}

using Maker = std::function<std::unique_ptr<Kernel>(const MatmulProblem&)>;

void run(benchmark::State& state, const MatmulProblem& problem, const Maker& make) {
  const std::unique_ptr<Kernel> kernel = make(problem);
  if (kernel == nullptr) return state.SkipWithError("no such kernel on this processor");
  Memory a(span_bytes(problem, problem.a));
  Memory b(span_bytes(problem, problem.b));
  Memory c(span_bytes(problem, problem.c));
  Memory workspace(kernel->workspace_bytes() + 1);
  const std::array<void*, 2> inputs = {a.address, b.address};
  void* output = c.address;
  for (auto _ : state) kernel->launch({inputs.data(), &output, workspace.address});
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(problem.flops()), benchmark::Counter::kIsIterationInvariantRate);
}

void add(const std::string& name, MatmulProblem problem) {
  const auto add_one = [&](std::string_view way, const MatmulProblem& with, Maker make) {
    benchmark::RegisterBenchmark(fmt::format("{}/{}", name, way).c_str(),
                                 [with, make](benchmark::State& state) { run(state, with, make); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  };
  add_one("fp32_sgemm", problem, cpu::make_sgemm_matmul);
  add_one("fp32_primitive", problem, cpu::make_primitive_matmul);
  problem.a.dtype = problem.b.dtype = problem.c.dtype = DType::bf16;
  add_one("bf16_primitive", problem, cpu::make_primitive_matmul);
}

// y[T,out] = x[T,in] w[out,in]^T and its gradients dx = dy w, dw = dy^T x.
void add_linear(std::int64_t tokens, std::int64_t in, std::int64_t out) {
  const std::string shape = fmt::format("{}->{}", in, out);
  const StridedMatrix x = dense(tokens, in);
  const StridedMatrix y = dense(tokens, out);
  const StridedMatrix w = dense(out, in);
  add("forward/" + shape, {{}, x, transposed(w), y});
  add("dx/" + shape, {{}, y, w, x});
  add("dw/" + shape, {{}, transposed(y), x, w});
}

// Attention on q, k, v stored [B,S,H,D] and dense scores [B,H,S,S].
void add_attention(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) {
  const std::string shape = fmt::format("B{}H{}S{}D{}", b, h, s, d);
  StridedMatrix head = dense(s, d);
  head.row_stride = h * d;
  head = batched(head, s * h * d, d);
  const StridedMatrix dense_head = batched(dense(s, d), h * s * d, s * d);
  const StridedMatrix scores = batched(dense(s, s), h * s * s, s * s);
  add("q_kt/" + shape, {{b, h}, head, transposed(head), scores});
  add("p_v/" + shape, {{b, h}, scores, head, dense_head});
  add("do_vt/" + shape, {{b, h}, dense_head, transposed(head), scores});
  add("pt_do/" + shape, {{b, h}, transposed(scores), dense_head, dense_head});
  add("ds_k/" + shape, {{b, h}, scores, head, dense_head});
  add("dst_q/" + shape, {{b, h}, transposed(scores), head, dense_head});
}

void add_all() {
  for (const std::int64_t size : {1024, 2048, 4096}) {
    add(fmt::format("square/{}", size), {{}, dense(size, size), dense(size, size), dense(size, size)});
  }
  constexpr std::int64_t kTokens = 1024;
  for (const std::int64_t width : {768, 1024, 1280, 1600, 2560}) {
    add_linear(kTokens, width, width);
    add_linear(kTokens, width, 4 * width);
    add_linear(kTokens, 4 * width, width);
  }
  add_linear(kTokens, 768, 10000);
  add_attention(4, 12, 256, 64);
  add_attention(4, 25, 256, 64);
}

const bool kAdded = (cpu::keep_freed_memory(), add_all(), true);

}  // namespace
}  // namespace ridgepoint
