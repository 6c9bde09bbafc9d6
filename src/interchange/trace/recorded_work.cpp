#include "interchange/trace/recorded_work.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/text/text.h"
#include "core/text/words.h"
#include "interchange/trace/json_cursor.h"

namespace ridgepoint {
namespace {

// What an op reads and writes. In place, a result is the first input.
enum class Form : std::uint8_t {
  product,             // [..., M, K] times [..., K, N]: the inputs at `place` and behind it
  attention,           // queries, keys and values of [B, H, S, D]; `place` is that of the flag that says causal
  attention_backward,  // a gradient before these, and the result of forward behind them
  elementwise,         // reads all; the result has the common shape, in the widest type
  comparison,          // the same, in bytes
  reduction,           // reads all; the result is small
  like_first,          // reads all; the result is as large as the first
  look_up,             // the rows of the first that the second names, read and written
  copy,                // reads the second, writes the first
  fill,                // writes the first
};

struct OpsOfForm {
  Form form;
  std::size_t place;
  std::string_view names;  // without aten::, and without the _ behind the name of what works in place
};
constexpr OpsOfForm kOps[] = {
    {Form::product, 0, "mm bmm _scaled_mm"},
    {Form::product, 1, "addmm baddbmm _addmm_activation"},
    {Form::attention, 4, "_scaled_dot_product_flash_attention"},
    {Form::attention, 6, "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"},
    {Form::attention_backward, 11,
     "_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward"},
    {Form::attention_backward, 14, "_scaled_dot_product_cudnn_attention_backward"},
    {Form::elementwise, 0,
     "abs add addcdiv addcmul bitwise_and bitwise_not bitwise_or ceil clamp clamp_max clamp_min cos div elu erf exp "
     "expm1 floor gelu gelu_backward hardswish leaky_relu lerp log log1p log2 masked_fill maximum minimum mul neg pow "
     "reciprocal relu remainder rsqrt sgn sigmoid sigmoid_backward sign silu silu_backward sin softplus sqrt sub tanh "
     "tanh_backward threshold_backward trunc where native_dropout_backward"},
    {Form::comparison, 0, "eq ge gt isfinite isinf isnan le logical_and logical_not logical_or lt ne"},
    {Form::reduction, 0,
     "all amax amin any argmax argmin linalg_vector_norm max mean min norm prod std sum var var_mean _foreach_norm"},
    {Form::like_first, 0,
     "_fused_rms_norm _fused_rms_norm_backward _log_softmax _log_softmax_backward_data _softmax _softmax_backward_data "
     "cudnn_batch_norm cudnn_batch_norm_backward cumsum miopen_batch_norm native_batch_norm native_batch_norm_backward "
     "native_dropout native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward tril "
     "triu"},
    {Form::look_up, 0, "embedding"},
    {Form::copy, 0, "copy _foreach_copy"},
    {Form::fill, 0, "fill zero _foreach_zero"},
};

// Of lists of tensors; all other ops with these names. The first list is written, too.
constexpr std::string_view kOfLists = "_foreach_";
// Optimizers: parameters, gradients, states. All lists but the gradients are written, too.
constexpr std::string_view kOptimizer = "_fused_";
constexpr std::array<std::string_view, 4> kFusedOptimizers = {"_fused_adamw", "_fused_adam", "_fused_sgd",
                                                              "_fused_adagrad"};

// The name without aten::, and whether the op works in place. Empty for other ops.
struct OpName {
  std::string_view name;
  bool is_in_place = false;
};
OpName name_of(std::string_view op) {
  constexpr std::string_view kPrefix = "aten::";
  if (!op.starts_with(kPrefix)) return {};
  op.remove_prefix(kPrefix.size());
  const bool is_in_place = op.ends_with('_') && !op.ends_with("__");
  if (is_in_place) op.remove_suffix(1);
  return {op, is_in_place};
}

const OpsOfForm* find_op(std::string_view name) {
  static const auto known = [] {
    std::unordered_map<std::string_view, const OpsOfForm*> ops;
    for (const OpsOfForm& of_form : kOps)
      for (const std::string_view each : words_of(of_form.names)) ops.emplace(each, &of_form);
    return ops;
  }();
  const auto found = known.find(name);
  return found == known.end() ? nullptr : found->second;
}

bool is_of_lists(std::string_view name) {
  return name.starts_with(kOfLists) ||
         (name.starts_with(kOptimizer) && std::ranges::find(kFusedOptimizers, name) != kFusedOptimizers.end());
}

struct Element {
  std::string_view name;  // as PyTorch's profiler writes it
  std::string_view dtype;
  double bytes = 0;
};
// The widest last: a result has the widest type of its inputs.
constexpr std::array kElements = {Element{"bool", "", 1},
                                  Element{"unsigned char", "", 1},
                                  Element{"signed char", "", 1},
                                  Element{"short", "", 2},
                                  Element{"short int", "", 2},
                                  Element{"int", "", 4},
                                  Element{"long", "", 8},
                                  Element{"long int", "", 8},
                                  Element{"c10::Float8_e4m3fn", "fp8", 1},
                                  Element{"c10::Float8_e5m2", "fp8", 1},
                                  Element{"c10::Half", "fp16", 2},
                                  Element{"c10::BFloat16", "bf16", 2},
                                  Element{"float", "fp32", 4},
                                  Element{"double", "fp64", 8}};
// The file does not say what a list of tensors has. Parameters and states of optimizers usually have this.
constexpr double kBytesInLists = 4;

// An input that is a tensor or a list of tensors.
struct Input {
  std::vector<double> dims;  // of a tensor
  double elements = 0;
  double elements_of_list = 0;    // of all its tensors
  const Element* type = nullptr;  // null: of a list, or unknown
  bool is_tensor = false, is_list = false;

  double bytes_of_element() const { return type != nullptr ? type->bytes : is_list ? kBytesInLists : 0; }
  double bytes() const { return elements * bytes_of_element(); }
};

template <typename Visit>
void each_item(std::string_view list, Visit visit) {
  JsonCursor cursor(list);
  std::string_view item;
  if (cursor.expect('[') != Scan::ok) return;
  while (cursor.peek() != ']' && cursor.value(item) == Scan::ok && visit(item)) {
    if (cursor.expect(',') != Scan::ok) return;
  }
}

std::vector<double> dims_of(std::string_view list) {
  constexpr std::size_t kMostDims = 16;
  std::vector<double> dims;
  each_item(list, [&](std::string_view dim) {
    dims.push_back(is_digits(dim) ? std::strtod(std::string(dim).c_str(), nullptr) : 0);
    return dims.size() < kMostDims;
  });
  return dims;
}

double product_of(const std::vector<double>& dims) {
  return std::accumulate(dims.begin(), dims.end(), 1.0, std::multiplies<>());
}

// By place. What is no tensor is there, too. Where the file has shapes and no types, each shape is a tensor's.
std::vector<Input> inputs_of(const RecordedInputs& recorded) {
  constexpr std::size_t kMostInputs = 32;
  std::vector<Input> inputs;
  each_item(recorded.dims, [&](std::string_view dims) {
    Input& input = inputs.emplace_back();
    input.is_tensor = recorded.types.empty() && dims.starts_with('[');
    input.dims = dims_of(dims);
    input.elements = product_of(input.dims);
    each_item(dims, [&](std::string_view tensor) {
      input.is_list = tensor.starts_with('[');
      if (input.is_list) input.elements_of_list += product_of(dims_of(tensor));
      return input.is_list;
    });
    return inputs.size() < kMostInputs;
  });
  std::size_t place = 0;
  each_item(recorded.types, [&](std::string_view type) {
    if (place == inputs.size()) return false;
    Input& input = inputs[place++];
    const auto* const known = std::ranges::find(kElements, type, &Element::name);
    if (known != kElements.end()) input.type = known;
    input.is_tensor = input.type != nullptr;
    input.is_list = input.is_list && type == "TensorList";
    return true;
  });
  for (Input& input : inputs) {
    if (input.is_list) input.elements = input.elements_of_list;
    if (!input.is_list && !input.is_tensor) input.elements = 0;
  }
  return inputs;
}

// Dimensions are compared from the last on; empty where they do not fit.
std::optional<std::vector<double>> common_shape(const std::vector<Input>& inputs) {
  std::vector<double> common;  // the last first
  for (const Input& input : inputs) {
    if (!input.is_tensor) continue;
    if (input.dims.size() > common.size()) common.resize(input.dims.size(), 1);
    for (std::size_t i = 0; i < input.dims.size(); ++i) {
      const double dim = input.dims[input.dims.size() - 1 - i];
      if (dim != 1 && common[i] != 1 && common[i] != dim) return std::nullopt;
      if (dim != 1) common[i] = dim;
    }
  }
  return common;
}

// Tensors without dimensions do not decide, beside others.
const Element* widest_type(const std::vector<Input>& inputs) {
  const Element* widest = nullptr;
  for (const bool has_dims : {true, false}) {
    for (const Input& input : inputs)
      if (input.is_tensor && input.dims.empty() != has_dims && (widest == nullptr || input.type > widest))
        widest = input.type;
    if (widest != nullptr) return widest;
  }
  return widest;
}

struct Work {
  double flops = 0, bytes = 0;
};

double bytes_of_all(const std::vector<Input>& inputs) {
  return std::accumulate(inputs.begin(), inputs.end(), 0.0,
                         [](double sum, const Input& input) { return sum + input.bytes(); });
}

bool is_tensor_at(const std::vector<Input>& inputs, std::size_t place, std::size_t least_dims = 0) {
  return place < inputs.size() && inputs[place].is_tensor && inputs[place].dims.size() >= least_dims;
}

Work work_of_product(const std::vector<Input>& inputs, std::size_t place) {
  if (!is_tensor_at(inputs, place, 2) || !is_tensor_at(inputs, place + 1, 2)) return {};
  const std::vector<double>&a = inputs[place].dims, &b = inputs[place + 1].dims;
  if (a.size() != b.size() || a.back() != b[b.size() - 2]) return {};
  const double batch = std::accumulate(a.begin(), a.end() - 2, 1.0, std::multiplies<>());
  const double m = a[a.size() - 2], k = a.back(), n = b.back();
  return {2 * batch * m * k * n, inputs[place].bytes_of_element() * batch * (m * k + k * n + m * n)};
}

// 4 B H S^2 D, half of that if causal; 2.5 times as many backward.
Work work_of_attention(const std::vector<Input>& inputs, const OpsOfForm& op, std::string_view concrete) {
  constexpr std::size_t kDims = 4;
  constexpr double kBackward = 2.5;
  const bool is_backward = op.form == Form::attention_backward;
  const std::size_t q = is_backward ? 1 : 0;
  for (std::size_t i = 0; i < q + 3; ++i)
    if (!is_tensor_at(inputs, i, kDims) || inputs[i].dims.size() != kDims) return {};
  std::optional<bool> causal;
  std::size_t place = 0;
  each_item(concrete, [&](std::string_view value) {
    if (place++ == op.place && (value == "True" || value == "False")) causal = value == "True";
    return true;
  });
  if (!causal) return {};
  const Input &queries = inputs[q], &keys = inputs[q + 1], &values = inputs[q + 2];
  const double scores = product_of(queries.dims) / std::max(queries.dims[3], 1.0) * keys.dims[2];
  const double flops = 2 * scores * (queries.dims[3] + values.dims[3]) / (*causal ? 2 : 1);
  const double result = queries.bytes() / std::max(queries.dims[3], 1.0) * values.dims[3];
  const double operands = queries.bytes() + keys.bytes() + values.bytes();
  if (!is_backward) return {flops, operands + result};
  return {kBackward * flops, 2 * operands + 2 * result};  // read with the result and its gradient; three are written
}

Work work_of_lists(const std::vector<Input>& inputs, std::string_view name) {
  if (inputs.empty() || inputs.front().elements <= 0) return {};  // PyTorch writes no list of more than 30 tensors
  double bytes = bytes_of_all(inputs);
  if (name.starts_with(kOfLists)) return {0, bytes + inputs.front().bytes()};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].is_list && i != 1) bytes += inputs[i].bytes();
  return {0, bytes};
}

Work work_of(const OpsOfForm& op, bool is_in_place, const std::vector<Input>& inputs, std::string_view concrete) {
  if (op.form == Form::product) return work_of_product(inputs, op.place);
  if (op.form == Form::attention || op.form == Form::attention_backward) return work_of_attention(inputs, op, concrete);
  if (inputs.empty() || inputs.front().elements <= 0) return {};
  const double read = bytes_of_all(inputs), first = inputs.front().bytes();
  switch (op.form) {
    case Form::reduction: return {0, read};
    case Form::like_first: return {0, read + first};
    case Form::fill: return {0, first};
    case Form::copy: return {0, inputs.size() > 1 && inputs[1].elements > 0 ? first + inputs[1].bytes() : 0};
    case Form::look_up: {
      if (!is_tensor_at(inputs, 0, 2) || !is_tensor_at(inputs, 1)) return {};
      return {0, 2 * inputs[1].elements * inputs[0].dims[1] * inputs[0].bytes_of_element() + inputs[1].bytes()};
    }
    default: break;
  }
  if (is_in_place) return {0, read + first};
  const auto shape = common_shape(inputs);
  const Element* const type = widest_type(inputs);
  if (!shape || type == nullptr) return {};
  return {0, read + product_of(*shape) * (op.form == Form::comparison ? 1 : type->bytes)};
}

}  // namespace

bool may_have_work(std::string_view op) {
  const OpName name = name_of(op);
  return !name.name.empty() && (find_op(name.name) != nullptr || is_of_lists(name.name));
}

std::optional<TraceWork> work_of_op(std::string_view op, const RecordedInputs& recorded) {
  constexpr double kMost = 4e18;
  const auto [name, is_in_place] = name_of(op);
  const OpsOfForm* const known = find_op(name);
  if (known == nullptr && !is_of_lists(name)) return std::nullopt;
  const std::vector<Input> inputs = inputs_of(recorded);
  const Work work =
      known != nullptr ? work_of(*known, is_in_place, inputs, recorded.concrete) : work_of_lists(inputs, name);
  const bool is_product = known != nullptr && known->form == Form::product;
  if (!(is_product ? work.flops > 0 : work.bytes > 0) || work.flops > kMost || work.bytes > kMost) return std::nullopt;
  TraceWork result{static_cast<std::int64_t>(work.flops), static_cast<std::int64_t>(work.bytes), {}, is_product};
  const std::size_t typed = known != nullptr && is_product ? known->place : 0;
  if (work.flops > 0 && inputs[typed].type != nullptr) result.dtype = inputs[typed].type->dtype;
  return result;
}

}  // namespace ridgepoint
