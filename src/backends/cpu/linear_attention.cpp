// linear_attention and its derivative in chunks of tokens (the formulas are in ops/rules/linear_attention.cpp).
#include "ops/linear_attention_form.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cpu/attention/blocks.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul/one_thread.h"
#include "core/threads/parallel.h"

namespace ridgepoint::cpu {
namespace {

constexpr std::int64_t kChunk = kLinearAttentionChunk;
constexpr std::int64_t kSolved = 16;  // rows that a triangular system solves one by one, between matrix products

// Rows of a dense tensor as T, the type of the sums: where they are, or widened in the memory of a worker.
template <typename T>
class TensorRows {
 public:
  TensorRows(DType dtype, std::int64_t width)
      : width_(width),
        bytes_(size_bytes(dtype)),
        load_(tile::load_function(dtype, 1)),
        store_(tile::store_function(dtype, 1)),
        in_place_(!is_low(dtype)) {}
  std::int64_t width() const { return width_; }
  std::int64_t buffered(std::int64_t rows) const { return in_place_ ? 0 : rows * width_; }

  const T* read(const void* tensor, std::int64_t row, std::int64_t rows, T* buffer) const {
    if (in_place_) return static_cast<const T*>(at(tensor, row));
    load_(buffer, at(tensor, row), nullptr, nullptr, rows * width_, 1);
    return buffer;
  }
  T* sums(void* tensor, std::int64_t row, T* buffer) const {
    return in_place_ ? static_cast<T*>(at(tensor, row)) : buffer;
  }
  void store(const T* sums, void* tensor, std::int64_t row, std::int64_t rows) const {
    if (!in_place_) store_(at(tensor, row), sums, nullptr, nullptr, rows * width_, 1);
  }

 private:
  void* at(const void* tensor, std::int64_t row) const {
    return const_cast<std::byte*>(static_cast<const std::byte*>(tensor)) +
           static_cast<std::size_t>(row * width_) * bytes_;
  }

  std::int64_t width_;
  std::size_t bytes_;
  tile::Function load_, store_;
  bool in_place_;
};

// to += factor from
template <typename T>
void add_scaled(T* to, T factor, const T* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}
template <typename T>
void copy_scaled(T* to, T factor, const T* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = factor * from[i];
}
// In several partial sums, as vectors have them.
template <typename T>
T dot_product(const T* a, const T* b, std::int64_t count) {
  T sums[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (int lane = 0; lane < 16; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return std::accumulate(std::begin(sums), std::end(sums), T{0});
}

// The tokens of one chunk of a head.
template <typename T>
struct Chunk {
  std::int64_t count;
  const T *q, *k, *v, *beta;
  double decay[kChunk];                                                          // sums of g
  T factor(std::int64_t i) const { return static_cast<T>(std::exp(decay[i])); }  // gamma
  T between(std::int64_t i, std::int64_t j) const { return static_cast<T>(std::exp(decay[i] - decay[j])); }
  T to_end(std::int64_t i) const { return between(count - 1, i); }
};

template <typename T>
class LinearAttention : public Kernel {
 public:
  explicit LinearAttention(const KernelSpec& spec)
      : is_backward_(spec.node.op == Op::linear_attention_backward),
        form_(linear_attention_form(spec.node.attributes)),
        sizes_(spec.inputs[is_backward_ ? 2 : 1].shape, spec.inputs[is_backward_ ? 3 : 2].shape),
        keys_(spec.inputs[0].dtype, sizes_.key_width),
        values_(spec.inputs[0].dtype, sizes_.value_width),
        chunks_(ceil_divide(sizes_.tokens, kChunk)),
        heads_(sizes_.batch * sizes_.heads),
        workers_(worker_count(std::max<std::int64_t>(heads_, sizes_.batch * sizes_.key_heads * chunks_), 1)) {
    Scratch scratch;
    for (std::size_t& place : widened_) place = scratch.take<T>(keys_.buffered(kChunk));
    for (std::size_t& place : value_rows_) place = scratch.take<T>(kChunk * values_.width());
    for (std::size_t& place : key_rows_) place = scratch.take<T>(kChunk * keys_.width());
    for (std::size_t& place : squares_) place = scratch.take<T>(kChunk * kChunk);
    state_ = scratch.take<T>(state_elements());
    worker_bytes_ = scratch.bytes();
    states_ = static_cast<std::size_t>(workers_) * worker_bytes_;
    if (!is_backward_) return;
    const auto all_states = static_cast<std::size_t>(heads_ * chunks_ * state_elements()) * sizeof(T);
    gradients_ = states_ + all_states;
    errors_ = gradients_ + all_states;
    bytes_ = errors_ + static_cast<std::size_t>(heads_ * sizes_.tokens * values_.width()) * sizeof(T);
  }

  std::string_view name() const override {
    return is_backward_ ? "linear_attention_backward_chunked" : "linear_attention_chunked";
  }
  std::size_t workspace_bytes() const override { return is_backward_ ? bytes_ : states_; }

  void launch(const LaunchArguments& arguments) override {
    parallel_for_workers(heads_, std::min<int>(workers_, static_cast<int>(std::max<std::int64_t>(heads_, 1))),
                         [&](int worker, std::int64_t begin, std::int64_t end) {
                           for (std::int64_t head = begin; head < end; ++head) run_head(arguments, worker, head);
                         });
    if (!is_backward_) return;
    const std::int64_t units = sizes_.batch * sizes_.key_heads * chunks_;
    parallel_for_workers(units, workers_, [&](int worker, std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit)
        key_gradients(arguments, worker, unit / chunks_, unit % chunks_);
    });
  }

 private:
  std::int64_t state_elements() const { return keys_.width() * values_.width(); }
  std::size_t first_operand() const { return is_backward_ ? 1 : 0; }  // q

  T* at(const LaunchArguments& arguments, int worker, std::size_t place) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(arguments.workspace) +
                                static_cast<std::size_t>(worker) * worker_bytes_ + place);
  }
  // The state before a chunk, or the gradient of the one after it, in the workspace.
  T* state_of(const LaunchArguments& arguments, std::size_t place, std::int64_t head, std::int64_t chunk) const {
    return at(arguments, 0, place) + (head * chunks_ + chunk) * state_elements();
  }
  T* errors_of(const LaunchArguments& arguments, std::int64_t row) const {
    return at(arguments, 0, errors_) + row * values_.width();
  }

  Chunk<T> load(const LaunchArguments& arguments, int worker, std::int64_t head, std::int64_t index) const {
    const std::int64_t first = index * kChunk;
    const std::int64_t row = head * sizes_.tokens + first, key_row = head / sizes_.group() * sizes_.tokens + first;
    void* const* inputs = arguments.inputs + first_operand();
    Chunk<T> chunk{};
    chunk.count = std::min(kChunk, sizes_.tokens - first);
    chunk.q = keys_.read(inputs[0], key_row, chunk.count, at(arguments, worker, widened_[0]));
    chunk.k = keys_.read(inputs[1], key_row, chunk.count, at(arguments, worker, widened_[1]));
    chunk.v = values_.read(inputs[2], row, chunk.count, at(arguments, worker, value_rows_[0]));
    chunk.beta = static_cast<const T*>(inputs[4]) + row;
    const T* g = static_cast<const T*>(inputs[3]) + row;
    double sum = 0;
    for (std::int64_t i = 0; i < chunk.count; ++i) chunk.decay[i] = sum += static_cast<double>(g[i]);
    return chunk;
  }

  // The strictly lower D k k^T, negative, or with q the lower scale D q k^T.
  void decayed_products(const Chunk<T>& chunk, const T* rows, T factor, bool strictly, T* to) const {
    const std::int64_t n = chunk.count;
    multiply<T>({n, n, keys_.width()}, {rows, keys_.width()}, {chunk.k, keys_.width(), true}, to, kChunk);
    weigh(chunk, factor, strictly, to);
  }
  void weigh(const Chunk<T>& chunk, T factor, bool strictly, T* square) const {
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      const std::int64_t end = strictly ? i : i + 1;
      for (std::int64_t j = 0; j < end; ++j) square[i * kChunk + j] *= factor * chunk.between(i, j);
      std::fill(square + i * kChunk + end, square + i * kChunk + chunk.count, T{0});
    }
  }

  // From v and the state before the chunk to w and u.
  void find_errors(const Chunk<T>& chunk, const T* state, const T* square, T* w, T* u) const {
    const std::int64_t n = chunk.count, width = values_.width();
    if (form_.delta) {
      multiply<T>({n, width, keys_.width()}, {chunk.k, keys_.width()}, {state, width}, w, width);
      for (std::int64_t i = 0; i < n; ++i) copy_scaled(w + i * width, -chunk.factor(i), w + i * width, width);
      for (std::int64_t i = 0; i < n; ++i) add_scaled(w + i * width, T{1}, chunk.v + i * width, width);
    } else {
      std::copy_n(chunk.v, n * width, w);
    }
    for (std::int64_t block = 0; block < n; block += kSolved) {
      const std::int64_t end = std::min(block + kSolved, n);
      if (form_.delta && block > 0)
        multiply<T>({end - block, width, block}, {square + block * kChunk, kChunk}, {u, width}, w + block * width,
                    width, true);
      for (std::int64_t i = block; i < end; ++i) {
        for (std::int64_t j = block; form_.delta && j < i; ++j)
          add_scaled(w + i * width, square[i * kChunk + j], u + j * width, width);
        copy_scaled(u + i * width, chunk.beta[i], w + i * width, width);
      }
    }
  }

  // state = gamma_n state + (exp(G_n - G) k)^T u
  void advance(const Chunk<T>& chunk, const T* u, T* scaled_keys, T* state) const {
    const std::int64_t width = keys_.width();
    for (std::int64_t i = 0; i < chunk.count; ++i)
      copy_scaled(scaled_keys + i * width, chunk.to_end(i), chunk.k + i * width, width);
    copy_scaled(state, chunk.factor(chunk.count - 1), state, state_elements());
    multiply<T>({width, values_.width(), chunk.count}, {scaled_keys, width, true}, {u, values_.width()}, state,
                values_.width(), true);
  }

  void run_head(const LaunchArguments& arguments, int worker, std::int64_t head) const {
    T* state = at(arguments, worker, state_);
    T* u = at(arguments, worker, value_rows_[1]);
    T* square = at(arguments, worker, squares_[0]);
    std::fill_n(state, state_elements(), T{0});
    for (std::int64_t index = 0; index < chunks_; ++index) {
      const Chunk<T> chunk = load(arguments, worker, head, index);
      const std::int64_t row = head * sizes_.tokens + index * kChunk;
      T* w = is_backward_ ? errors_of(arguments, row) : at(arguments, worker, value_rows_[2]);
      if (form_.delta) decayed_products(chunk, chunk.k, T{-1}, true, square);
      if (is_backward_) std::copy_n(state, state_elements(), state_of(arguments, states_, head, index));
      find_errors(chunk, state, square, w, u);
      if (!is_backward_) {
        T* o = values_.sums(arguments.outputs[0], row, at(arguments, worker, value_rows_[3]));
        read_state(chunk, state, u, at(arguments, worker, squares_[1]), o);
        values_.store(o, arguments.outputs[0], row, chunk.count);
      }
      advance(chunk, u, at(arguments, worker, key_rows_[0]), state);
    }
    if (!is_backward_) return;
    std::fill_n(state, state_elements(), T{0});  // from here on the gradient of the state after a chunk
    for (std::int64_t index = chunks_; index-- > 0;) {
      std::copy_n(state, state_elements(), state_of(arguments, gradients_, head, index));
      go_back(arguments, worker, head, index, state);
    }
  }

  // o = scale (gamma q S + (q k^T D) u)
  void read_state(const Chunk<T>& chunk, const T* state, const T* u, T* square, T* o) const {
    const std::int64_t n = chunk.count, width = values_.width();
    const auto scale = static_cast<T>(form_.scale);
    multiply<T>({n, width, keys_.width()}, {chunk.q, keys_.width()}, {state, width}, o, width);
    for (std::int64_t i = 0; i < n; ++i) copy_scaled(o + i * width, scale * chunk.factor(i), o + i * width, width);
    decayed_products(chunk, chunk.q, scale, false, square);
    multiply<T>({n, width, n}, {square, kChunk}, {u, width}, o, width, true);
  }

  // The gradients of v and beta, and of the state before the chunk in place of that of the state after it.
  void go_back(const LaunchArguments& arguments, int worker, std::int64_t head, std::int64_t index, T* gradient) const {
    const Chunk<T> chunk = load(arguments, worker, head, index);
    const std::int64_t n = chunk.count, width = values_.width(), key_width = keys_.width();
    const std::int64_t row = head * sizes_.tokens + index * kChunk;
    const T* d_o = values_.read(arguments.inputs[0], row, n, at(arguments, worker, value_rows_[1]));
    const T* w = errors_of(arguments, row);
    T* dv = values_.sums(arguments.outputs[2], row, at(arguments, worker, value_rows_[2]));
    T* du = at(arguments, worker, value_rows_[3]);
    T* square = at(arguments, worker, squares_[0]);
    T* of_q = at(arguments, worker, squares_[1]);
    const auto scale = static_cast<T>(form_.scale);
    multiply<T>({n, width, key_width}, {chunk.k, key_width}, {gradient, width}, du, width);
    for (std::int64_t i = 0; i < n; ++i) copy_scaled(du + i * width, chunk.to_end(i), du + i * width, width);
    decayed_products(chunk, chunk.q, scale, false, of_q);
    multiply<T>({n, width, n}, {of_q, kChunk, true}, {d_o, width}, du, width, true);
    if (form_.delta) decayed_products(chunk, chunk.k, T{-1}, true, square);
    T* d_beta = static_cast<T*>(arguments.outputs[4]) + row;
    for (std::int64_t block = (n - 1) / kSolved * kSolved; block >= 0; block -= kSolved) {
      const std::int64_t end = std::min(block + kSolved, n);
      if (form_.delta && end < n)
        multiply<T>({end - block, width, n - end}, {square + end * kChunk + block, kChunk, true},
                    {dv + end * width, width}, du + block * width, width, true);
      for (std::int64_t j = end; j-- > block;) {
        for (std::int64_t i = j + 1; form_.delta && i < end; ++i)
          add_scaled(du + j * width, square[i * kChunk + j], dv + i * width, width);
        d_beta[j] = dot_product(du + j * width, w + j * width, width);
        copy_scaled(dv + j * width, chunk.beta[j], du + j * width, width);
      }
    }
    values_.store(dv, arguments.outputs[2], row, n);
    copy_scaled(gradient, chunk.factor(n - 1), gradient, state_elements());
    T* scaled = at(arguments, worker, key_rows_[0]);
    const auto add_rows = [&](const T* keys, T factor, const T* rows) {
      for (std::int64_t i = 0; i < n; ++i)
        copy_scaled(scaled + i * key_width, factor * chunk.factor(i), keys + i * key_width, key_width);
      multiply<T>({key_width, width, n}, {scaled, key_width, true}, {rows, width}, gradient, width, true);
    };
    add_rows(chunk.q, scale, d_o);
    if (form_.delta) add_rows(chunk.k, T{-1}, dv);
  }

  // The gradients of q and k of a chunk, of all heads that read them, and those of g of these heads.
  void key_gradients(const LaunchArguments& arguments, int worker, std::int64_t key_head, std::int64_t index) const {
    const std::int64_t key_row = key_head * sizes_.tokens + index * kChunk;
    const std::int64_t n = std::min(kChunk, sizes_.tokens - index * kChunk), width = keys_.width();
    T* dq = keys_.sums(arguments.outputs[0], key_row, at(arguments, worker, key_rows_[2]));
    T* dk = keys_.sums(arguments.outputs[1], key_row, at(arguments, worker, key_rows_[3]));
    std::fill_n(dq, n * width, T{0});
    std::fill_n(dk, n * width, T{0});
    for (std::int64_t i = 0; i < sizes_.group(); ++i)
      add_head(arguments, worker, key_head * sizes_.group() + i, index, dq, dk);
    keys_.store(dq, arguments.outputs[0], key_row, n);
    keys_.store(dk, arguments.outputs[1], key_row, n);
  }

  void add_head(const LaunchArguments& arguments, int worker, std::int64_t head, std::int64_t index, T* dq,
                T* dk) const {
    const Chunk<T> chunk = load(arguments, worker, head, index);
    const std::int64_t n = chunk.count, width = values_.width(), key_width = keys_.width();
    const std::int64_t row = head * sizes_.tokens + index * kChunk;
    const T* d_o = values_.read(arguments.inputs[0], row, n, at(arguments, worker, value_rows_[1]));
    const T* dv = values_.read(arguments.outputs[2], row, n, at(arguments, worker, value_rows_[2]));
    const T* state = state_of(arguments, states_, head, index);
    const T* gradient = state_of(arguments, gradients_, head, index);
    T* u = at(arguments, worker, value_rows_[3]);
    T* own_dq = at(arguments, worker, key_rows_[0]);
    T* part = at(arguments, worker, key_rows_[1]);
    T* square = at(arguments, worker, squares_[0]);
    T* products = at(arguments, worker, squares_[1]);
    const auto scale = static_cast<T>(form_.scale);
    for (std::int64_t i = 0; i < n; ++i)
      copy_scaled(u + i * width, chunk.beta[i], errors_of(arguments, row + i), width);

    // dg_t is the sum of what passes the decay of t. `passed` has what begins to do so at each token from the last one
    // back, less what ceases to: the same numbers, so that nothing is left of what does not pass.
    double passed[kChunk] = {};
    const auto add_rows = [&](const T* keys, const T* gradients, T factor) {
      for (std::int64_t i = 0; i < n; ++i)
        passed[i] +=
            static_cast<double>(factor * dot_product(keys + i * key_width, gradients + i * key_width, key_width));
    };
    const auto add_pairs = [&](const T* keys) {
      multiply<T>({n, n, key_width}, {keys, key_width}, {chunk.k, key_width, true}, products, kChunk);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < i; ++j) {
          const double pair =
              static_cast<double>(square[i * kChunk + j]) * static_cast<double>(products[i * kChunk + j]);
          passed[i] += pair;
          passed[j] -= pair;
        }
      }
    };

    multiply<T>({n, key_width, width}, {d_o, width}, {state, width, true}, own_dq, key_width);
    for (std::int64_t i = 0; i < n; ++i)
      copy_scaled(own_dq + i * key_width, scale * chunk.factor(i), own_dq + i * key_width, key_width);
    add_rows(chunk.q, own_dq, T{1});
    multiply<T>({n, n, width}, {d_o, width}, {u, width, true}, square, kChunk);
    weigh(chunk, scale, false, square);
    add_pairs(chunk.q);
    multiply<T>({n, key_width, n}, {square, kChunk}, {chunk.k, key_width}, own_dq, key_width, true);
    multiply<T>({n, key_width, n}, {square, kChunk, true}, {chunk.q, key_width}, dk, key_width, true);

    // (gamma dv) state^T, and (exp(G_n - G) u) gradient^T: what the state after the chunk carries on
    if (form_.delta) {
      multiply<T>({n, key_width, width}, {dv, width}, {state, width, true}, part, key_width);
      for (std::int64_t i = 0; i < n; ++i)
        copy_scaled(part + i * key_width, -chunk.factor(i), part + i * key_width, key_width);
      add_scaled(dk, T{1}, part, n * key_width);
      add_rows(chunk.k, part, T{1});
      multiply<T>({n, n, width}, {dv, width}, {u, width, true}, square, kChunk);
      weigh(chunk, T{-1}, true, square);
      add_pairs(chunk.k);
      multiply<T>({n, key_width, n}, {square, kChunk}, {chunk.k, key_width}, dk, key_width, true);
      multiply<T>({n, key_width, n}, {square, kChunk, true}, {chunk.k, key_width}, dk, key_width, true);
    }
    const double until_here = std::accumulate(passed, passed + n, 0.0);
    multiply<T>({n, key_width, width}, {u, width}, {gradient, width, true}, part, key_width);
    for (std::int64_t i = 0; i < n; ++i)
      copy_scaled(part + i * key_width, chunk.to_end(i), part + i * key_width, key_width);
    add_scaled(dk, T{1}, part, n * key_width);
    add_rows(chunk.k, part, T{-1});

    double carried = until_here - std::accumulate(passed, passed + n, 0.0);
    for (std::int64_t i = 0; i < key_width; ++i)
      carried += std::exp(chunk.decay[n - 1]) *
                 static_cast<double>(dot_product(gradient + i * width, state + i * width, width));
    T* dg = static_cast<T*>(arguments.outputs[3]) + row;
    for (std::int64_t i = n; i-- > 0;) dg[i] = static_cast<T>(carried += passed[i]);
    if (index == 0) dg[0] = 0;  // there is no state to decay; the sums are of roundings
    add_scaled(dq, T{1}, own_dq, n * key_width);
  }

  bool is_backward_;
  LinearAttentionForm form_;
  LinearAttentionSizes sizes_;
  TensorRows<T> keys_, values_;
  std::int64_t chunks_, heads_;
  int workers_;
  // Byte offsets in a worker's workspace, and behind those of all workers.
  std::size_t widened_[2], value_rows_[4], key_rows_[4], squares_[2], state_ = 0;
  std::size_t worker_bytes_ = 0;
  std::size_t states_ = 0, gradients_ = 0, errors_ = 0, bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_attention_kernel(const KernelSpec& spec) {
  if (spec.inputs[0].dtype == DType::fp64) return std::make_unique<LinearAttention<double>>(spec);
  return std::make_unique<LinearAttention<float>>(spec);
}

}  // namespace ridgepoint::cpu
