// The tensors that one call of attention allocates before backward and at the peak, each with its size by formula and
// the size of its block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inspect/attention/benchmark.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

struct AccountLine {
  std::string component;             // "q", "weights", "log-sum-exp", "workspace"
  std::string shape;                 // in symbols: "B H S D"; empty for a workspace
  std::string formula;               // the size in bytes: "4 B H S^2"
  std::int64_t predicted_bytes = 0;  // by the formula
  std::int64_t measured_bytes = 0;   // of its block
  // measured - predicted is the sum of these: a block is a multiple of 512 bytes, and a remainder that is too small to
  // split off stays in the block.
  std::int64_t rounding_bytes = 0;
  std::int64_t unsplit_bytes = 0;
};

struct AccountMoment {
  std::string name;  // "before backward", "peak, at matmul of scores"
  std::vector<AccountLine> lines;
  std::int64_t allocated_bytes = 0;  // by the allocator; the sum of measured_bytes
  std::int64_t reserved_bytes = 0;   // in segments, free blocks included
};

struct AttentionAccount {
  AttentionProblem problem;
  Record run;  // the device and the status
  std::vector<AccountMoment> moments;
};

// Accounts for the first run of forward and backward. If the run fails, the record has the status and there are no
// moments.
AttentionAccount account_for_attention(const AttentionConfig& config);

}  // namespace ridgepoint
