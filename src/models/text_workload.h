// What commands that read or write text ask of a workload, which may be that of another program.
#pragma once

#include <string_view>

#include "ridgepoint/models/workload.h"

namespace ridgepoint {

// A workload learns text if it is a Transformer that predicts the next token, or if its forward graph has the inputs
// "inputs" and "targets", int64 [batch, context], and a loss. Its description has batch, context and vocabulary.
// Throws Error (usage) that begins with `who` and says what the workload lacks.
void require_learns_text(const Workload& workload, std::string_view who);

// The same of one that text is written with: it needs the input "inputs" and the output "logits", whose rows are those
// of the tokens, of as many logits as the vocabulary has.
void require_writes_text(const Workload& workload, std::string_view who);

}  // namespace ridgepoint
