// The tensors of one attention call that are allocated before backward, at the peak, and when a request fails, each
// with its size by formula and the size of its block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/attention/benchmark.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {

struct AccountLine {
  std::string component;             // "q", "weights", "log-sum-exp", "workspace"
  std::string shape = {};            // in symbols: "B H S D"; empty for a workspace
  std::string formula = {};          // the size in bytes: "4 B H S^2"
  std::int64_t predicted_bytes = 0;  // by the formula
  std::int64_t measured_bytes = 0;   // of its block; 0 for a request that fails
  // measured - predicted is the sum of both: a block is rounded to a multiple of 512 bytes, and a remainder that is too
  // small to split off stays in the block.
  std::int64_t rounding_bytes = 0;
  std::int64_t unsplit_bytes = 0;
};

struct AccountMoment {
  std::string name;  // "before backward", "peak, in backward at matmul", "out of memory, in forward at softmax"
  std::vector<AccountLine> lines;
  std::int64_t allocated_bytes = 0;         // by the allocator; the sum of measured_bytes
  std::int64_t reserved_bytes = 0;          // in segments, free blocks included
  std::optional<AccountLine> refused = {};  // out of memory: the request that failed
};

struct AttentionAccount {
  AttentionProblem problem;
  Record run;  // the device and the status
  std::vector<AccountMoment> moments;
};

// Accounts for the first run of forward and backward. If the run, or its plan in the available memory, does not fit,
// the record has the status, and the only moment is the failed request. If the run fails otherwise, there are no
// moments.
AttentionAccount account_for_attention(const AttentionConfig& config);

}  // namespace ridgepoint
