// Where the memory of one call of attention goes: every tensor held before backward and at the peak, its size by
// formula beside the block it lies in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/attention/benchmark.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

struct AccountLine {
  std::string component;             // "q", "weights", "log-sum-exp", "workspace"
  std::string shape;                 // in symbols: "B H S D"; empty for a workspace
  std::string formula;               // of its bytes: "4 B H S^2"
  std::int64_t predicted_bytes = 0;  // by the formula
  std::int64_t measured_bytes = 0;   // of its block
  // measured - predicted is the sum of these: a block is a multiple of 512 bytes, and what is left of one that is too
  // little to be split off stays with it.
  std::int64_t rounding_bytes = 0;
  std::int64_t unsplit_bytes = 0;
};

struct AccountMoment {
  std::string name;  // "before backward", "peak, at matmul of scores"
  std::vector<AccountLine> lines;
  std::int64_t allocated_bytes = 0;  // as the allocator counts; the sum of measured_bytes
  std::int64_t reserved_bytes = 0;   // in segments; what is not allocated of it waits to be used again
};

struct AttentionAccount {
  AttentionProblem problem;
  Record run;  // of the device, and how it ended
  std::vector<AccountMoment> moments;
};

// Of the first run of forward and backward. What befalls the run becomes the record's status, with no moments.
AttentionAccount account_for_attention(const AttentionConfig& config);

}  // namespace ridgepoint
