// dequantise: the elements of weights that are packed in 4 or 8 bits (core/packed/packed_matrix.h). Operand: their
// bytes, packed [bytes]. Attributes:
//   format   nf4 or int8
//   rows     of each weight; the weights lie one after another
//   columns  of all
//   row_order  where the packed rows of heads are in the order of a file (packed_weight.h)
//   dtype    of the result [sum of rows, columns]: bf16, fp16 or fp32, rounded from fp32

#include "ir/packed_weight.h"
#include "ir/stored_tensors.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_dequantise(const ShapeContext& context) {
  const TensorType& packed = context.inputs[0];
  const std::vector<PackedPart> parts = packed_parts(context.attributes);
  require(packed == TensorType{DType::packed, {packed_bytes(parts)}},
          [&] { return "the operand must be packed[" + std::to_string(packed_bytes(parts)) + "]"; });
  const DType dtype = dtype_from_name(context.attributes.get<std::string>("dtype"));
  require(is_floating(dtype) && accumulator(dtype) == DType::fp32,
          [&] { return "the result must be fp32, bf16 or fp16, not " + std::string(name(dtype)); });
  const PackedPart& last = parts.back();
  return {{dtype, {last.first_row + last.matrix.rows, last.matrix.columns}}};
}

// A code times its scale.
std::int64_t flops_dequantise(const Graph& graph, const Node& node) { return graph.type(node.outputs[0]).elements(); }

}  // namespace

extern const OpRule rule_dequantise{.infer = infer_dequantise, .flops = flops_dequantise};

Value dequantise(Graph& graph, Value packed, BaseWeights format, std::vector<std::int64_t> rows, std::int64_t columns,
                 DType dtype, const Source& source) {
  return make_value(graph, Op::dequantise, {packed},
                    {{std::string(kFormat), std::string(name(format))},
                     {std::string(kRows), std::move(rows)},
                     {std::string(kColumns), columns},
                     {"dtype", std::string(name(dtype))}},
                    source);
}

}  // namespace ridgepoint
