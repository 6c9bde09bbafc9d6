#include "backends/cpu/attention.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/attention_rows.h"
#include "core/parallel.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cpu {
namespace {

// A block of scores takes 128 KiB, two of them fit into a core's second cache beside the operands' blocks.
constexpr std::int64_t kQueries = 128;
constexpr std::int64_t kKeys = 256;
constexpr std::int64_t kBlock = kQueries * kKeys;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// c = (keep ? c : 0) + a b, a and b as they lie or transposed; one thread.
void multiply(char a_transposed, char b_transposed, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
              std::int64_t lda, const float* b, std::int64_t ldb, bool keep, float* c, std::int64_t ldc) {
  const dnnl_status_t status =
      dnnl_sgemm(a_transposed, b_transposed, m, n, k, 1.0F, a, lda, b, ldb, keep ? 1.0F : 0.0F, c, ldc);
  if (status != dnnl_success)
    throw Error(fmt::format("oneDNN's SGEMM failed with status {}", static_cast<int>(status)));
}

struct Problem {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
  float scale = 1;
  bool causal = false;

  std::int64_t query_blocks() const { return ceil_divide(queries, kQueries); }
  std::int64_t key_blocks() const { return ceil_divide(keys, kKeys); }
  // Scores of queries from `query` against keys from `key`.
  ScoreBlock block(float* scores, std::int64_t query, std::int64_t key) const {
    const std::int64_t columns = std::min(kKeys, keys - key);
    const std::int64_t visible = causal ? query + 1 - key : columns;
    return {scores, std::min(kQueries, queries - query), columns, kKeys, visible, causal ? 1 : 0};
  }
  // Where the keys end that some query of the block from `query` sees.
  std::int64_t keys_seen(std::int64_t query) const { return causal ? std::min(keys, query + kQueries) : keys; }
};

Problem problem_of(const KernelSpec& spec, std::size_t q) {
  const Shape& queries = spec.inputs[q].shape;
  Problem problem;
  for (int axis = 0; axis < queries.rank() - 2; ++axis) problem.batch *= queries[axis];
  problem.queries = queries[-2];
  problem.keys = spec.inputs[q + 1].shape[-2];
  problem.width = queries[-1];
  problem.scale = static_cast<float>(spec.node.attributes.get<double>("scale"));
  problem.causal = spec.node.attributes.get<bool>("causal");
  return problem;
}

float* at(void* tensor, std::int64_t element) { return static_cast<float*>(tensor) + element; }

// A unit of work is a block of queries of one matrix. Where later queries see more, first and last take turns, so that
// equal counts of units are equal work.
class Attention : public Kernel {
 public:
  explicit Attention(const KernelSpec& spec)
      : problem_(problem_of(spec, 0)),
        workers_(worker_count(std::max<std::int64_t>(problem_.batch * problem_.query_blocks(), 1), 1)) {}

  std::string_view name() const override { return "attention_tiled"; }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(workers_ * kScratch) * sizeof(float); }

  void launch(const LaunchArguments& arguments) override {
    const std::int64_t units = problem_.batch * problem_.query_blocks();
    if (units == 0) return;
    parallel_for_workers(units, workers_, [&](int worker, std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) compute(arguments, worker, unit);
    });
  }

 private:
  static constexpr std::int64_t kScratch = kBlock + 3 * kQueries;

  void compute(const LaunchArguments& arguments, int worker, std::int64_t unit) const {
    const std::int64_t blocks = problem_.query_blocks();
    const std::int64_t matrix = unit / blocks;
    const std::int64_t turn = unit % blocks;
    const std::int64_t query = (turn % 2 == 0 ? turn / 2 : blocks - 1 - turn / 2) * kQueries;
    const std::int64_t width = problem_.width;
    const float* q = at(arguments.inputs[0], (matrix * problem_.queries + query) * width);
    const float* k = at(arguments.inputs[1], matrix * problem_.keys * width);
    const float* v = at(arguments.inputs[2], matrix * problem_.keys * width);
    float* o = at(arguments.outputs[0], (matrix * problem_.queries + query) * width);
    float* log_sum_exp = at(arguments.outputs[1], matrix * problem_.queries + query);

    float* scores = at(arguments.workspace, worker * kScratch);
    const RowSums rows{scores + kBlock, scores + kBlock + kQueries, scores + kBlock + 2 * kQueries};
    std::fill_n(rows.top, kQueries, -std::numeric_limits<float>::infinity());
    std::fill_n(rows.sum, kQueries, 0.0F);
    for (std::int64_t key = 0; key < problem_.keys_seen(query); key += kKeys) {
      const ScoreBlock block = problem_.block(scores, query, key);
      multiply('N', 'T', block.rows, block.columns, width, q, width, k + key * width, width, false, scores, kKeys);
      take_exponentials(block, problem_.scale, rows);
      if (key > 0) {
        for (std::int64_t row = 0; row < block.rows; ++row) {
          if (rows.factor[row] != 1.0F) scale_row(o + row * width, width, rows.factor[row]);
        }
      }
      multiply('N', 'N', block.rows, width, block.columns, scores, kKeys, v + key * width, width, key > 0, o, width);
    }
    for (std::int64_t row = 0; row < std::min(kQueries, problem_.queries - query); ++row) {
      scale_row(o + row * width, width, 1.0F / rows.sum[row]);
      log_sum_exp[row] = rows.top[row] + std::log(rows.sum[row]);
    }
  }

  Problem problem_;
  int workers_;
};

// A unit of work is one matrix and every `parts_`-th of its blocks of keys: those gradients of k and v are its own.
// Where a matrix has several units each sums the gradient of q apart, and the sums are added in order.
class AttentionBackward : public Kernel {
 public:
  explicit AttentionBackward(const KernelSpec& spec)
      : problem_(problem_of(spec, 1)),
        parts_(std::clamp<std::int64_t>(ceil_divide(thread_count(), std::max<std::int64_t>(problem_.batch, 1)), 1,
                                        std::max<std::int64_t>(problem_.key_blocks(), 1))),
        workers_(worker_count(std::max<std::int64_t>(problem_.batch * parts_, 1), 1)),
        scratch_(2 * kBlock + problem_.queries) {}

  std::string_view name() const override { return "attention_backward_tiled"; }
  std::size_t workspace_bytes() const override {
    const std::int64_t apart = (parts_ - 1) * problem_.batch * problem_.queries * problem_.width;
    return static_cast<std::size_t>(workers_ * scratch_ + apart) * sizeof(float);
  }

  void launch(const LaunchArguments& arguments) override {
    const std::int64_t units = problem_.batch * parts_;
    if (units == 0) return;
    parallel_for_workers(units, workers_, [&](int worker, std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) compute(arguments, worker, unit / parts_, unit % parts_);
    });
    const std::int64_t elements = problem_.batch * problem_.queries * problem_.width;
    parallel_for(elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = 1; part < parts_; ++part) {
        add_row(at(arguments.outputs[0], begin), gradient_of_q(arguments, part) + begin, end - begin);
      }
    });
  }

 private:
  static constexpr std::int64_t kGrain = 1 << 14;

  // [batch, queries, width] of one part.
  float* gradient_of_q(const LaunchArguments& arguments, std::int64_t part) const {
    if (part == 0) return at(arguments.outputs[0], 0);
    return at(arguments.workspace,
              workers_ * scratch_ + (part - 1) * problem_.batch * problem_.queries * problem_.width);
  }

  void compute(const LaunchArguments& arguments, int worker, std::int64_t matrix, std::int64_t part) const {
    const std::int64_t width = problem_.width;
    const std::int64_t q_offset = matrix * problem_.queries * width;
    const float* d_o = at(arguments.inputs[0], q_offset);
    const float* o = at(arguments.inputs[4], q_offset);
    float* dq = gradient_of_q(arguments, part) + q_offset;
    std::fill_n(dq, problem_.queries * width, 0.0F);
    float* products = at(arguments.workspace, worker * scratch_) + 2 * kBlock;  // sum(do o) of each query
    for (std::int64_t row = 0; row < problem_.queries; ++row) {
      products[row] = dot(d_o + row * width, o + row * width, width);
    }
    for (std::int64_t key = part * kKeys; key < problem_.keys; key += parts_ * kKeys) {
      compute_keys(arguments, worker, matrix, key, dq);
    }
  }

  void compute_keys(const LaunchArguments& arguments, int worker, std::int64_t matrix, std::int64_t key,
                    float* dq) const {
    const std::int64_t width = problem_.width;
    const std::int64_t q_offset = matrix * problem_.queries * width;
    const std::int64_t k_offset = (matrix * problem_.keys + key) * width;
    const float* d_o = at(arguments.inputs[0], q_offset);
    const float* q = at(arguments.inputs[1], q_offset);
    const float* k = at(arguments.inputs[2], k_offset);
    const float* v = at(arguments.inputs[3], k_offset);
    const float* log_sum_exp = at(arguments.inputs[5], matrix * problem_.queries);
    float* dk = at(arguments.outputs[1], k_offset);
    float* dv = at(arguments.outputs[2], k_offset);
    float* weights = at(arguments.workspace, worker * scratch_);
    float* gradients = weights + kBlock;
    const float* products = gradients + kBlock;

    const std::int64_t columns = std::min(kKeys, problem_.keys - key);
    std::fill_n(dk, columns * width, 0.0F);
    std::fill_n(dv, columns * width, 0.0F);
    const std::int64_t first =
        problem_.causal ? key / kQueries * kQueries : 0;  // queries before see none of these keys
    for (std::int64_t query = first; query < problem_.queries; query += kQueries) {
      const ScoreBlock block = problem_.block(weights, query, key);
      const std::int64_t rows = block.rows;
      const float* q_block = q + query * width;
      const float* d_o_block = d_o + query * width;
      multiply('N', 'T', rows, columns, width, q_block, width, k, width, false, weights, kKeys);
      take_weights(block, problem_.scale, log_sum_exp + query);
      multiply('T', 'N', columns, width, rows, weights, kKeys, d_o_block, width, true, dv, width);
      multiply('N', 'T', rows, columns, width, d_o_block, width, v, width, false, gradients, kKeys);
      take_score_gradients(block, problem_.scale, products + query, gradients);
      multiply('T', 'N', columns, width, rows, gradients, kKeys, q_block, width, true, dk, width);
      multiply('N', 'N', rows, width, columns, gradients, kKeys, k, width, true, dq + query * width, width);
    }
  }

  Problem problem_;
  std::int64_t parts_;
  int workers_;
  std::int64_t scratch_;
};

}  // namespace

bool has_attention(const Graph& graph, const Node& node) {
  const std::size_t q = node.op == Op::attention ? 0 : 1;
  return graph.type(node.inputs[q]).dtype == DType::fp32;
}

std::unique_ptr<Kernel> make_attention_kernel(const KernelSpec& spec) { return std::make_unique<Attention>(spec); }

std::unique_ptr<Kernel> make_attention_backward_kernel(const KernelSpec& spec) {
  return std::make_unique<AttentionBackward>(spec);
}

}  // namespace ridgepoint::cpu
