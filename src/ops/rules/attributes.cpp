
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/text/throw_error.h"
#include "ir/packed_weight.h"
#include "ir/stored_tensors.h"
#include "ops/attention_form.h"
#include "ops/collectives.h"
#include "ops/float8_product.h"
#include "ops/layout.h"
#include "ops/rule.h"
#include "ops/rules/optimizer/optimizer.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

// In the order of AttributeValue; a number is an integer or a real number.
enum Type : std::uint8_t { flag, integer, real, integers, text, number };
constexpr std::array<std::string_view, 6> kTypeNames = {
    "true or false", "an integer", "a real number, with a point", "a list of integers", "a text", "a number"};

bool has_type(const AttributeValue& value, Type type) {
  return type == number ? value.index() == integer || value.index() == real : value.index() == type;
}

struct Known {
  std::string_view name;
  Type type;
};

// The attributes of single ops.
struct Row {
  std::string_view name;
  Type type;
  std::vector<Op> ops;
};

const std::vector<Row>& rows() {
  static const std::vector<Op> attentions = {Op::attention, Op::attention_backward};
  static const std::vector<Op> products = {Op::matmul, Op::matmul_add};
  static const std::vector<Op> linear_attentions = {Op::linear_attention, Op::linear_attention_backward};
  static const std::vector<Row> all = {
      // Values that enter, and what their tensors are to a program.
      {"name", text, {Op::input}},
      {"role", text, {Op::input}},
      {"initial", real, {Op::input}},
      {kFrozen, flag, {Op::input}},
      {kOnHost, flag, {Op::input}},
      {kOnDisk, flag, {Op::input}},
      {kNoDecay, flag, {Op::input}},
      {kIndexedRows, integer, {Op::input}},
      {kIgnoredIndex, integer, {Op::input}},
      {kCopyOf, text, {Op::input}},
      {kLowHalfOf, text, {Op::input}},
      {kDeclaredDType, text, {Op::input}},
      {kDeclaredShape, integers, {Op::input}},
      {kPart, integer, {Op::input}},
      {kPartOf, text, {Op::input}},
      {kScaleOf, text, {Op::input}},
      {kParts, text, {Op::input}},
      {kRows, integers, {Op::input, Op::dequantise}},
      {kFormat, text, {Op::input, Op::dequantise}},
      {kColumns, integer, {Op::dequantise}},
      {kPackedAs, text, {Op::input}},
      {kRowOrder, integers, {Op::input, Op::dequantise}},
      {"value", number, {Op::constant}},
      {"dtype",
       text,
       {Op::constant, Op::cast, Op::iota, Op::quantise, Op::quantise_rows, Op::dequantise, Op::widen_codes}},
      // Layouts and elements.
      {"shape", integers, {Op::reshape, Op::broadcast, Op::iota}},
      {"permutation", integers, {Op::transpose}},
      {"axis", integer, {Op::flip, Op::split, Op::concat, Op::iota, Op::rope}},
      {"sizes", integers, {Op::split}},
      {"axes", integers, {Op::reduce_sum, Op::reduce_max}},
      {"keep_dims", flag, {Op::reduce_sum, Op::reduce_max}},
      {kAccumulates, flag, {Op::add}},
      {"tanh", flag, {Op::gelu, Op::gelu_backward}},
      {"cap", real, {Op::soft_cap, Op::soft_cap_backward}},
      {"fill", real, {Op::causal_mask}},
      {"window", integer, {Op::causal_mask, Op::attention, Op::attention_backward}},
      {"epsilon", real, {Op::rms_norm, Op::layer_norm}},
      {"reversed", flag, {Op::causal_convolution}},
      {"inverse", flag, {Op::rope}},
      // Products, attention and what else has kernels of its own.
      {"result", text, {Op::matmul, Op::matmul_add, Op::scaled_matmul}},
      {kLeftCodes, text, products},
      {kRightCodes, text, products},
      {"layout", text, {Op::quantise}},
      {"rows", integer, {Op::embedding_backward}},
      {"k", integer, {Op::top_k}},
      {"size", integer, {Op::top_k_backward}},
      {"experts", integer, {Op::expert_order}},
      {"transposed", flag, {Op::grouped_matmul}},
      {"delta", flag, linear_attentions},
      {"scale", real, {Op::attention, Op::attention_backward, Op::linear_attention, Op::linear_attention_backward}},
      {"causal", flag, attentions},
      {"soft_cap", real, attentions},
      {kSumsKeyGradients, flag, {Op::attention_backward}},
      {kZLoss, real, {Op::cross_entropy, Op::cross_entropy_backward}},
      {"root", integer, {Op::collective_broadcast}},
      {kInto, flag, {Op::all_gather}},
      {kOfTokens, flag, {Op::all_gather}},
  };
  return all;
}

std::vector<Known> attributes_of(Op op) {
  std::vector<Known> found;
  for (const Row& row : rows()) {
    if (std::ranges::find(row.ops, op) != row.ops.end()) found.push_back({row.name, row.type});
  }
  const OpTraits& its = traits(op);
  if (its.autocast == AutocastRule::low) found.push_back({"compute", text});
  if (its.op_class == OpClass::composite) found.push_back({kPlainAttribute, flag});
  if (its.op_class == OpClass::collective)
    found.insert(found.end(), {{"ranks", integer}, {"bucket", integer}, {kExposed, flag}});
  if (runs_beside(op)) found.push_back({kInFlight, integer});
  if (const OptimizerTraits* const optimizer = optimizer_of(op)) {
    for (const Hyperparameter& one : optimizer->hyperparameters) found.push_back({one.name, real});
    found.insert(found.end(), {{kScheduled, flag},
                               {kGuarded, flag},
                               {kLowCopy, text},
                               {kSplit, flag},
                               {kBeside, flag},
                               {kInFlight, integer}});
  }
  return found;
}

}  // namespace

void check_attributes(Op op, const Attributes& attributes) {
  static const auto all = [] {
    std::array<std::vector<Known>, kOpCount> made;
    for (const Op each : kAllOps) made[static_cast<std::size_t>(each)] = attributes_of(each);
    return made;
  }();
  for (const auto& [key, value] : attributes.items()) {
    const std::vector<Known>& known = all[static_cast<std::size_t>(op)];
    const auto found = std::ranges::find(known, key, &Known::name);
    if (found != known.end()) {
      if (has_type(value, found->type)) continue;
      throw_error(ErrorKind::usage, "the attribute '{}' of {} must be {}", key, name(op), kTypeNames[found->type]);
    }
    if (is_result_layout(key)) continue;
    std::vector<std::string_view> names;
    for (const Known& each : known) names.push_back(each.name);
    throw_error(ErrorKind::usage, "{} has no attribute '{}'{}", name(op), key,
                names.empty() ? "; it has none" : fmt::format("; it has {}", fmt::join(names, ", ")));
  }
}

}  // namespace ridgepoint
