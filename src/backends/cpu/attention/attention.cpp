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
    for (std::int64_t key = problem_.first_key(query); key < problem_.visible_keys(query); key += kKeys) {
      add_keys(arguments, worker, matrix, query, key, q, sums, o);
    }
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

}  // namespace

bool has_attention(const Graph& graph, const Node& node) {
  const std::size_t q = node.op == Op::attention ? 0 : 1;
  return graph.type(node.inputs[q]).dtype != DType::fp64 && !sums_key_gradients(node) && !has_rotary_tables(node);
}

std::unique_ptr<Kernel> make_attention_kernel(const KernelSpec& spec) { return std::make_unique<Attention>(spec); }

}  // namespace ridgepoint::cpu
