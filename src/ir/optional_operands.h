// Operands that a node may have after those of op_list.def: all of them or none.
#pragma once

#include <cstddef>

#include "ridgepoint/op.h"

namespace ridgepoint {

// attention_backward: the tables of rotary embedding (ops/attention_form.h).
constexpr std::size_t optional_operands(Op op) { return op == Op::attention_backward ? 2 : 0; }

// Whether a node of the op may have so many operands.
inline bool takes_operands(Op op, std::size_t count) {
  const int declared = input_count(op);
  if (declared < 0) return true;
  const auto least = static_cast<std::size_t>(declared);
  return count == least || count == least + optional_operands(op);
}

}  // namespace ridgepoint
