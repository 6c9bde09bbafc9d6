// linear_attention and its derivative, token by token (the formulas are in ops/rules/linear_attention.cpp). The
// derivative keeps the state of every token. Operands are dense.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "backends/reference/element_runs.h"
#include "backends/reference/reference_device.h"
#include "ops/linear_attention_form.h"

namespace ridgepoint::reference {
namespace {

using Doubles = std::vector<double>;

// c [rows,columns] += a b^T.
void add_outer(double factor, const double* a, std::size_t rows, const double* b, std::size_t columns, double* c) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) c[i * columns + j] += factor * a[i] * b[j];
}
// y [columns] += factor m^T x and x [rows] += factor m y.
void add_transposed(double factor, const double* m, const double* x, std::size_t rows, std::size_t columns, double* y) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) y[j] += factor * m[i * columns + j] * x[i];
}
void add_product(double factor, const double* m, const double* y, std::size_t rows, std::size_t columns, double* x) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) x[i] += factor * m[i * columns + j] * y[j];
}
double dot(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

class LinearAttentionKernel : public ReferenceKernel {
 public:
  explicit LinearAttentionKernel(const KernelSpec& spec)
      : ReferenceKernel(spec),
        form_(linear_attention_form(spec.node.attributes)),
        is_backward_(spec.node.op == Op::linear_attention_backward),
        sizes_(spec.inputs[is_backward_ ? 2 : 1].shape, spec.inputs[is_backward_ ? 3 : 2].shape),
        inputs_(spec.inputs.begin(), spec.inputs.end()),
        outputs_(spec.outputs.begin(), spec.outputs.end()) {}

  void launch(const LaunchArguments& arguments) override {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      operands_[i + (is_backward_ ? 0 : 1)] = load_all(inputs_[i], arguments.inputs[i]);
    results_.clear();
    for (const TensorLayout& output : outputs_) results_.emplace_back(output.shape.elements());
    for (std::int64_t head = 0; head < sizes_.batch * sizes_.heads; ++head) run(static_cast<std::size_t>(head));
    for (std::size_t i = 0; i < outputs_.size(); ++i) store_all(outputs_[i], arguments.outputs[i], results_[i]);
  }

 private:
  // The rows of one head, and the numbers of a token of it.
  struct Token {
    const double *d_o, *q, *k, *v;
    double decay, beta;
  };
  std::size_t rows_of(std::size_t head) const { return head * static_cast<std::size_t>(sizes_.tokens); }
  std::size_t key_rows_of(std::size_t head) const { return rows_of(head / static_cast<std::size_t>(sizes_.group())); }
  Token token(std::size_t head, std::size_t t) const {
    const std::size_t row = rows_of(head) + t, key_row = key_rows_of(head) + t;
    return {is_backward_ ? &operands_[0][row * columns_] : nullptr,
            &operands_[1][key_row * rows_],
            &operands_[2][key_row * rows_],
            &operands_[3][row * columns_],
            std::exp(operands_[4][row]),
            operands_[5][row]};
  }

  void run(std::size_t head) {
    const auto tokens = static_cast<std::size_t>(sizes_.tokens);
    Doubles state(rows_ * columns_);
    std::vector<Doubles> decayed, errors;  // P and w of each token
    for (std::size_t t = 0; t < tokens; ++t) {
      const Token at = token(head, t);
      for (double& x : state) x *= at.decay;
      Doubles w(at.v, at.v + columns_);
      if (is_backward_) decayed.push_back(state);
      if (form_.delta) add_transposed(-1, state.data(), at.k, rows_, columns_, w.data());
      add_outer(at.beta, at.k, rows_, w.data(), columns_, state.data());
      if (is_backward_)
        errors.push_back(std::move(w));
      else
        add_transposed(form_.scale, state.data(), at.q, rows_, columns_, &results_[0][(rows_of(head) + t) * columns_]);
    }
    if (!is_backward_) return;
    Doubles gradient(rows_ * columns_);  // of the state after token t
    for (std::size_t t = tokens; t-- > 0;) back(head, t, decayed[t], errors[t], gradient);
  }

  // From the gradient of S_t to that of S_(t-1).
  void back(std::size_t head, std::size_t t, const Doubles& decayed, const Doubles& w, Doubles& gradient) {
    const Token at = token(head, t);
    const std::size_t row = rows_of(head) + t, key_row = key_rows_of(head) + t;
    double* dq = &results_[0][key_row * rows_];
    double* dk = &results_[1][key_row * rows_];
    double* dv = &results_[2][row * columns_];
    Doubles state = decayed;
    add_outer(at.beta, at.k, rows_, w.data(), columns_, state.data());
    add_product(form_.scale, state.data(), at.d_o, rows_, columns_, dq);
    add_outer(form_.scale, at.q, rows_, at.d_o, columns_, gradient.data());
    Doubles du(columns_);  // u = beta w
    add_transposed(1, gradient.data(), at.k, rows_, columns_, du.data());
    add_product(at.beta, gradient.data(), w.data(), rows_, columns_, dk);
    for (std::size_t j = 0; j < columns_; ++j) dv[j] = at.beta * du[j];
    results_[4][row] = dot(du.data(), w.data(), columns_);
    if (form_.delta) {
      add_product(-1, decayed.data(), dv, rows_, columns_, dk);
      add_outer(-1, at.k, rows_, dv, columns_, gradient.data());
    }
    results_[3][row] = dot(gradient.data(), decayed.data(), decayed.size());
    for (double& x : gradient) x *= at.decay;
  }

  LinearAttentionForm form_;
  bool is_backward_;
  LinearAttentionSizes sizes_;
  std::size_t rows_ = static_cast<std::size_t>(sizes_.key_width);  // of a state
  std::size_t columns_ = static_cast<std::size_t>(sizes_.value_width);
  std::vector<TensorLayout> inputs_, outputs_;
  std::array<Doubles, 6> operands_;  // as those of the derivative
  std::vector<Doubles> results_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_attention(const KernelSpec& spec) {
  return std::make_unique<LinearAttentionKernel>(spec);
}

}  // namespace ridgepoint::reference
