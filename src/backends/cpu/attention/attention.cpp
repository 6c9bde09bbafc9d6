#include "backends/cpu/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/cpu/attention/blocks.h"
#include "backends/cpu/attention/rows.h"
#include "core/threads/parallel.h"
#include "ops/attention_form.h"

namespace ridgepoint::cpu {
namespace {

// A unit of work is one block of queries of one matrix. With a causal mask later blocks attend to more keys, so units
// alternate between the first and the last remaining block: equal counts of units are then equal work.
class Attention : public Kernel {
 public:
  explicit Attention(const KernelSpec& spec)
      : problem_(read_tiled_problem(spec, 0)),
        units_(problem_.batch * problem_.query_blocks()),
        workers_(worker_count(std::max<std::int64_t>(units_, 1), 1)),
        products_(make_block_products(
            problem_, workers_,
            [this](std::int64_t query, std::int64_t key) { return block_products(query, key, problem_.dtype); })),
        elements_(problem_.dtype, products_->operand_dtype()) {
    Scratch scratch;
    scores_ = scratch.take(kQueries * kKeys);
    row_sums_ = scratch.take(3 * kQueries);
    result_ = scratch.take(elements_.in_place() ? 0 : kQueries * problem_.width);
    queries_ = scratch.take(elements_.widens() ? kQueries * problem_.width : 0);
    keys_ = scratch.take(elements_.widens() ? kKeys * problem_.width : 0);
    products_scratch_ = scratch.take<std::byte>(static_cast<std::int64_t>(products_->scratch_bytes()));
    scratch_bytes_ = scratch.bytes();
  }

  std::string_view name() const override {
    if (elements_.widens()) return "attention_tiled_widened";
    return elements_.in_place() ? "attention_tiled" : "attention_tiled_bf16";
  }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(workers_) * scratch_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    if (units_ == 0) return;
    parallel_for_workers(units_, workers_, [&](int worker, std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) compute(arguments, worker, unit);
    });
  }

 private:
  // The shapes of the two products: scores = q k^T, and o += weights v.
  std::array<BlockProduct, 2> block_products(std::int64_t query, std::int64_t key, DType weights) const {
    const std::int64_t width = problem_.width;
    const std::int64_t rows = problem_.rows(query);
    const std::int64_t columns = problem_.columns(query, key);
    const std::int64_t stride = kKeys * static_cast<std::int64_t>(sizeof(float) / size_bytes(weights));
    return {BlockProduct{false, true, false, rows, columns, width, width, width, kKeys},
            BlockProduct{false, false, true, rows, width, columns, stride, width, width}};
  }

  float* scratch(const LaunchArguments& arguments, int worker, std::size_t offset) const {
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    return reinterpret_cast<float*>(workspace + static_cast<std::size_t>(worker) * scratch_bytes_ + offset);
  }

  void compute(const LaunchArguments& arguments, int worker, std::int64_t unit) const {
    const std::int64_t blocks = problem_.query_blocks();
    const std::int64_t matrix = unit / blocks;
    const std::int64_t i = unit % blocks;
    const std::int64_t query = (i % 2 == 0 ? i / 2 : blocks - 1 - i / 2) * kQueries;
    const std::int64_t width = problem_.width;
    const std::int64_t rows = problem_.rows(query);
    const std::int64_t first = (matrix * problem_.queries + query) * width;
    float* maximum = scratch(arguments, worker, row_sums_);
    const RowSums sums{maximum, maximum + kQueries, maximum + 2 * kQueries};
    float* o = elements_.sums(arguments.outputs[0], first, scratch(arguments, worker, result_));
    const void* q = elements_.operand(arguments.inputs[0], first, rows * width, scratch(arguments, worker, queries_));

    std::fill_n(sums.maximum, kQueries, -std::numeric_limits<float>::infinity());
    std::fill_n(sums.sum, kQueries, 0.0F);
    std::fill_n(o, rows * width, 0.0F);
    for (std::int64_t key = problem_.first_key(query); key < problem_.visible_keys(query); key += kKeys)
      add_keys(arguments, worker, matrix, query, key, q, sums, o);
    float* log_sum_exp = static_cast<float*>(arguments.outputs[1]) + matrix * problem_.queries + query;
    for (std::int64_t row = 0; row < rows; ++row) {
      scale_row(o + row * width, width, 1.0F / sums.sum[row]);
      log_sum_exp[row] = sums.maximum[row] + std::log(sums.sum[row]);
    }
    elements_.store(o, arguments.outputs[0], first, rows * width);
  }

  void add_keys(const LaunchArguments& arguments, int worker, std::int64_t matrix, std::int64_t query,
                std::int64_t block, const void* q, const RowSums& sums, float* o) const {
    const std::int64_t width = problem_.width;
    const DType operand = products_->operand_dtype();
    const auto [scores_of, add_values] = block_products(query, block, operand);
    const std::int64_t key = block + problem_.first_column(query, block);
    const std::int64_t first = (matrix / problem_.group * problem_.keys + key) * width;
    const std::int64_t count = scores_of.columns * width;
    float* widened = scratch(arguments, worker, keys_);
    float* products_scratch = scratch(arguments, worker, products_scratch_);
    float* scores = scratch(arguments, worker, scores_);

    const void* k = elements_.operand(arguments.inputs[1], first, count, widened);
    products_->multiply(scores_of, worker, products_scratch, q, k, scores);
    const std::int64_t visible = problem_.causal ? query + 1 - key : scores_of.columns;
    const std::int64_t hidden = problem_.window > 0 ? visible - problem_.window : -scores_of.rows;
    compute_exponentials({scores, scores_of.rows, scores_of.columns, kKeys, hidden, visible, problem_.causal ? 1 : 0},
                         {problem_.scale, problem_.soft_cap}, sums, operand);
    for (std::int64_t row = 0; key > 0 && row < scores_of.rows; ++row) {
      if (sums.factor[row] != 1.0F) scale_row(o + row * width, width, sums.factor[row]);
    }
    const void* v = elements_.operand(arguments.inputs[2], first, count, widened);
    products_->multiply(add_values, worker, products_scratch, scores, v, o);
  }

  TiledProblem problem_;
  std::int64_t units_;
  int workers_;
  std::unique_ptr<BlockProducts> products_;
  BlockElements elements_;
  // Byte offsets in a worker's workspace.
  std::size_t scores_, row_sums_, result_, queries_, keys_, products_scratch_;
  std::size_t scratch_bytes_;
};

constexpr std::int64_t kGrain = 1 << 14;

// A unit of work is one matrix and every `units_per_matrix_`-th of its blocks of keys; no other unit writes the
// gradients of those k and v. If a matrix has several units, each of them has a partial sum of the gradient of q, and
// the partial sums are added in order. Blocks of scores have keys as rows: three of the four products that read them
// then need no transpose.
class AttentionBackward : public Kernel {
 public:
  explicit AttentionBackward(const KernelSpec& spec)
      : problem_(read_tiled_problem(spec, 1)),
        units_per_matrix_(choose_units_per_matrix(problem_)),
        units_(problem_.batch * units_per_matrix_),
        workers_(worker_count(std::max<std::int64_t>(units_, 1), 1)),
        products_(make_block_products(
            problem_, workers_,
            [this](std::int64_t query, std::int64_t key) { return block_products(query, key, problem_.dtype); })),
        elements_(problem_.dtype, products_->operand_dtype()) {
    const std::int64_t width = problem_.width;
    Scratch scratch;
    scores_ = scratch.take(kQueries * kKeys);
    gradients_ = scratch.take(kQueries * kKeys);
    // The row functions read up to the end of the last vector, which is shorter than a block.
    log_sum_exp_ = scratch.take(problem_.queries + kQueries);
    row_products_ = scratch.take(problem_.queries + kQueries);
    key_sums_ = scratch.take(elements_.in_place() ? 0 : 2 * kKeys * width);
    query_sums_ = scratch.take(elements_.in_place() || units_per_matrix_ > 1 ? 0 : problem_.queries * width);
    queries_ = scratch.take(elements_.in_place() ? 0 : 2 * kQueries * width);
    keys_ = scratch.take(elements_.widens() ? 2 * kKeys * width : 0);
    products_scratch_ = scratch.take<std::byte>(static_cast<std::int64_t>(products_->scratch_bytes()));
    scratch_bytes_ = scratch.bytes();
  }

  std::string_view name() const override {
    if (elements_.widens()) return "attention_backward_tiled_widened";
    return elements_.in_place() ? "attention_backward_tiled" : "attention_backward_tiled_bf16";
  }
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(workers_) * scratch_bytes_ +
           static_cast<std::size_t>(sums_in_workspace() * query_elements()) * sizeof(float);
  }

  void launch(const LaunchArguments& arguments) override {
    if (units_ == 0) return;
    parallel_for_workers(units_, workers_, [&](int worker, std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit)
        compute(arguments, worker, unit / units_per_matrix_, unit % units_per_matrix_);
    });
    if (units_per_matrix_ == 1) return;
    parallel_for(query_elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      float* sum = query_gradient_sum(arguments, 0) + begin;
      for (std::int64_t i = 1; i < units_per_matrix_; ++i)
        add_row(sum, query_gradient_sum(arguments, i) + begin, end - begin);
      elements_.store(sum, arguments.outputs[0], begin, end - begin);
    });
  }

 private:
  enum Product : std::size_t { scores_of, gradients_of, add_to_values, add_to_keys, add_to_queries };
  static constexpr std::size_t kProducts = 5;

  static std::int64_t choose_units_per_matrix(const TiledProblem& problem) {
    const std::int64_t batch = std::max<std::int64_t>(problem.batch, 1);
    return std::clamp<std::int64_t>((thread_count() + batch - 1) / batch, 1,
                                    std::max<std::int64_t>(problem.key_blocks(), 1));
  }

  std::array<BlockProduct, kProducts> block_products(std::int64_t query, std::int64_t key, DType operand) const {
    const std::int64_t width = problem_.width;
    const std::int64_t rows = problem_.columns(query, key);
    const std::int64_t columns = problem_.rows(query);
    const std::int64_t stride = kQueries * static_cast<std::int64_t>(sizeof(float) / size_bytes(operand));
    const BlockProduct scores{false, true, false, rows, columns, width, width, width, kQueries};
    const BlockProduct key_sums{false, false, true, rows, width, columns, stride, width, width};
    const BlockProduct query_sums{true, false, true, columns, width, rows, stride, width, width};
    return {scores, scores, key_sums, key_sums, query_sums};
  }

  std::int64_t query_elements() const { return problem_.batch * problem_.queries * problem_.width; }
  // Partial sums of the gradient of q behind the workers' scratch; for fp32 the first one is the output itself.
  std::int64_t sums_in_workspace() const {
    return elements_.in_place() ? units_per_matrix_ - 1 : (units_per_matrix_ > 1 ? units_per_matrix_ : 0);
  }

  float* scratch(const LaunchArguments& arguments, int worker, std::size_t offset) const {
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    return reinterpret_cast<float*>(workspace + static_cast<std::size_t>(worker) * scratch_bytes_ + offset);
  }

  // Partial sum number `i` of the gradient of q, [batch, queries, width].
  float* query_gradient_sum(const LaunchArguments& arguments, std::int64_t i) const {
    if (elements_.in_place() && i == 0) return static_cast<float*>(arguments.outputs[0]);
    return scratch(arguments, workers_, 0) + (elements_.in_place() ? i - 1 : i) * query_elements();
  }

  void compute(const LaunchArguments& arguments, int worker, std::int64_t matrix, std::int64_t unit) const {
    const std::int64_t count = problem_.queries * problem_.width;
    float* dq = units_per_matrix_ > 1
                    ? query_gradient_sum(arguments, unit) + matrix * count
                    : elements_.sums(arguments.outputs[0], matrix * count, scratch(arguments, worker, query_sums_));
    std::fill_n(dq, count, 0.0F);
    compute_query_terms(arguments, worker, matrix);
    for (std::int64_t key = unit * kKeys; key < problem_.keys; key += units_per_matrix_ * kKeys)
      compute_keys(arguments, worker, matrix, key, dq);
    if (units_per_matrix_ == 1) elements_.store(dq, arguments.outputs[0], matrix * count, count);
  }

  // Computes sum(do o) for each query, and copies the log-sum-exp.
  void compute_query_terms(const LaunchArguments& arguments, int worker, std::int64_t matrix) const {
    const std::int64_t width = problem_.width;
    float* widened = scratch(arguments, worker, queries_);
    float* products = scratch(arguments, worker, row_products_);
    for (std::int64_t row = 0; row < problem_.queries; ++row) {
      const std::int64_t first = (matrix * problem_.queries + row) * width;
      products[row] = dot(elements_.fp32(arguments.inputs[0], first, width, widened),
                          elements_.fp32(arguments.inputs[4], first, width, widened + width), width);
    }
    std::copy_n(static_cast<const float*>(arguments.inputs[5]) + matrix * problem_.queries, problem_.queries,
                scratch(arguments, worker, log_sum_exp_));
  }

  void compute_keys(const LaunchArguments& arguments, int worker, std::int64_t matrix, std::int64_t key,
                    float* dq) const {
    const std::int64_t width = problem_.width;
    const std::int64_t first = (matrix * problem_.keys + key) * width;  // of the gradients
    const std::int64_t first_read = (matrix / problem_.group * problem_.keys + key) * width;
    const std::int64_t count = std::min(kKeys, problem_.keys - key) * width;
    float* widened = scratch(arguments, worker, keys_);
    const void* k = elements_.operand(arguments.inputs[2], first_read, count, widened);
    const void* v = elements_.operand(arguments.inputs[3], first_read, count, widened + kKeys * width);
    // If a key has a NaN, so has the log-sum-exp of every query that attends to it, and their gradients are NaN
    // already. A masked query would get 0 NaN = NaN from the product with k, so NaN in k is replaced by 0.
    std::vector<std::byte> cleared;
    if (problem_.causal) k = elements_.without_nan(k, count, cleared);
    float* sums = scratch(arguments, worker, key_sums_);
    float* dk = elements_.sums(arguments.outputs[1], first, sums);
    float* dv = elements_.sums(arguments.outputs[2], first, sums + kKeys * width);
    std::fill_n(dk, count, 0.0F);
    std::fill_n(dv, count, 0.0F);
    for (std::int64_t query = problem_.first_query(key); query < problem_.end_query(key); query += kQueries)
      add_queries(arguments, worker, matrix, query, key, {k, v, dk, dv, dq + query * width});
    elements_.store(dk, arguments.outputs[1], first, count);
    elements_.store(dv, arguments.outputs[2], first, count);
  }

  struct Keys {
    const void* k;
    const void* v;
    float* dk;
    float* dv;
    float* dq;  // of the current block of queries
  };

  // From the first key that the block of queries attends to.
  Keys seen_keys(const Keys& block, std::int64_t first_column) const {
    const std::int64_t count = first_column * problem_.width;
    const std::int64_t bytes = count * static_cast<std::int64_t>(size_bytes(products_->operand_dtype()));
    const auto further = [&](const void* x) { return static_cast<const std::byte*>(x) + bytes; };
    return {further(block.k), further(block.v), block.dk + count, block.dv + count, block.dq};
  }

  void add_queries(const LaunchArguments& arguments, int worker, std::int64_t matrix, std::int64_t query,
                   std::int64_t block, const Keys& block_keys) const {
    const std::int64_t width = problem_.width;
    const DType operand = products_->operand_dtype();
    const std::array<BlockProduct, kProducts> products = block_products(query, block, operand);
    const std::int64_t key = block + problem_.first_column(query, block);
    const Keys keys = seen_keys(block_keys, key - block);
    const auto [rows, columns] = std::pair(products[scores_of].rows, products[scores_of].columns);
    const std::int64_t first = (matrix * problem_.queries + query) * width;
    float* widened = scratch(arguments, worker, queries_);
    const void* q = elements_.operand(arguments.inputs[1], first, columns * width, widened);
    const void* d_o = elements_.operand(arguments.inputs[0], first, columns * width, widened + kQueries * width);
    float* scores = scratch(arguments, worker, scores_);
    float* gradients = scratch(arguments, worker, gradients_);
    const auto multiply = [&](Product product, const void* a, const void* b, float* c) {
      products_->multiply(products[product], worker, scratch(arguments, worker, products_scratch_), a, b, c);
    };
    multiply(scores_of, keys.k, q, scores);
    multiply(gradients_of, keys.v, d_o, gradients);
    const std::int64_t hidden = problem_.causal ? key - query : 0;
    const std::int64_t visible = problem_.window > 0 ? hidden + problem_.window : columns;
    compute_score_gradients({scores, gradients, rows, columns, kQueries, hidden, visible, problem_.causal ? 1 : 0},
                            {problem_.scale, problem_.soft_cap}, scratch(arguments, worker, log_sum_exp_) + query,
                            scratch(arguments, worker, row_products_) + query, operand);
    multiply(add_to_values, scores, d_o, keys.dv);
    multiply(add_to_keys, gradients, q, keys.dk);
    multiply(add_to_queries, gradients, keys.k, keys.dq);
  }

  TiledProblem problem_;
  std::int64_t units_per_matrix_;
  std::int64_t units_;
  int workers_;
  std::unique_ptr<BlockProducts> products_;
  BlockElements elements_;
  // Byte offsets in a worker's workspace.
  std::size_t scores_, gradients_, log_sum_exp_, row_products_, key_sums_, query_sums_, queries_, keys_;
  std::size_t products_scratch_;
  std::size_t scratch_bytes_;
};

}  // namespace

bool has_attention(const Graph& graph, const Node& node) {
  const std::size_t q = node.op == Op::attention ? 0 : 1;
  return graph.type(node.inputs[q]).dtype != DType::fp64 && !sums_key_gradients(node) && !has_rotary_tables(node) &&
         !has_sinks(node);
}

std::unique_ptr<Kernel> make_attention_kernel(const KernelSpec& spec) { return std::make_unique<Attention>(spec); }

std::unique_ptr<Kernel> make_attention_backward_kernel(const KernelSpec& spec) {
  return std::make_unique<AttentionBackward>(spec);
}

}  // namespace ridgepoint::cpu
