// The operations and bytes of an op of PyTorch, from the shapes and types of its inputs, as its profiler records them
// with record_shapes=True. Each tensor counts once: what is read, and what is written. docs/commands/trace.md says what
// each kind of op reads and writes.
#pragma once

#include <optional>
#include <string_view>

#include "interchange/trace/trace.h"

namespace ridgepoint {

// As text of JSON; empty where the event has none.
struct RecordedInputs {
  std::string_view dims;      // [[4,512,768],[768,768]]
  std::string_view types;     // ["float","float"]
  std::string_view concrete;  // ["","","0.","True"]: what is no tensor
};

// Whether work_of_op() may know the op, so that its inputs are worth a look.
bool may_have_work(std::string_view op);

// Empty for ops that are not known, and where the shapes are not recorded or do not fit.
std::optional<TraceWork> work_of_op(std::string_view op, const RecordedInputs& inputs);

}  // namespace ridgepoint
