// The parts of a study by topic; one file each. Each adds the parts of its topic to the plan, in their order.
#pragma once

#include "study/plan/planner.h"

namespace ridgepoint::plan {

void add_steps(Planner& planner);      // sizes, warmup, contexts, profile
void add_precision(Planner& planner);  // accumulation, autocast, precision_error
void add_memory(Planner& planner);     // memory_peaks, memory_step, memory_forward_loop
void add_attention(Planner& planner);  // attention_grid, attention_limit, accounting, ladder, flash, compiled_attention
void add_policies(Planner& planner);   // compiled_model, checkpointing
void add_ranks(Planner& planner);      // collectives, ranks

}  // namespace ridgepoint::plan
