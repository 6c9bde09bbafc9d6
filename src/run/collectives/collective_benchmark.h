// Times collectives by themselves, as nccl-tests do, and checks every element of their results.
#pragma once

#include <array>
#include <cstdint>

#include "ridgepoint/core/dtype.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ir/op.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"

namespace ridgepoint {

inline constexpr std::array kAllCollectives = {Op::all_reduce, Op::reduce_scatter, Op::all_gather,
                                               Op::collective_broadcast};

struct CollectiveSetup {
  Op op = Op::all_reduce;
  DType dtype = DType::fp32;
  // The bytes of the larger side: the operand of all_reduce, reduce_scatter and collective_broadcast, the result of
  // all_gather. Rounded up to whole elements for each rank.
  std::int64_t bytes = 0;
  std::int64_t warmup = 5;
  std::int64_t iterations = 20;  // in each of the batches that are timed
};

struct CollectiveTimes {
  std::int64_t bytes = 0;  // as rounded
  // Milliseconds of one collective: the median over batches of back-to-back launches, of the slowest rank.
  double ms = 0;
  // The algorithm bandwidth, bytes / time, and the bus bandwidth of nccl-tests (PERFORMANCE.md): the first times 2 (n -
  // 1) / n for all_reduce, (n - 1) / n for reduce_scatter and all_gather, 1 for collective_broadcast.
  double algorithm_bytes_per_second = 0;
  double bus_bytes_per_second = 0;
  std::int64_t wrong_elements = 0;  // of all ranks
};

// All ranks of the group call it with the same setup. Throws Error; unsupported where memory is too small.
CollectiveTimes measure_collective(Device& device, Communicator& communicator, ProcessGroup& group,
                                   const CollectiveSetup& setup, const StopPoint& stop_point = {});

}  // namespace ridgepoint
