// The memory that CUPTI writes its records to: 4 MiB at a time, handed out on request and taken back full, on whichever
// thread CUPTI likes. Its callbacks carry no pointer of ours, so that there is one of these a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/profiling/cupti.h"

namespace ridgepoint::cuda {

class CuptiBuffers {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 20;
  // Ready before recording begins, so that a step rarely waits for new memory: a step of 1,000 launches fills a
  // quarter of one.
  static constexpr std::size_t kReady = 4;

  struct Filled {
    std::unique_ptr<std::uint64_t[]> memory;  // records are aligned to 8 bytes
    std::size_t bytes = 0;
  };

  // Made and registered with CUPTI on first use. Throws Error.
  static CuptiBuffers& instance();

  // What has been filled since the last call, and how many records CUPTI had no buffer for.
  std::vector<Filled> take();
  std::uint64_t take_dropped();
  void give_back(std::vector<Filled> buffers);

 private:
  CuptiBuffers();

  static void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
  static void CUPTIAPI completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                                 std::size_t valid_bytes);

  // Never deleted: CUPTI's thread may outlive everything else.
  static CuptiBuffers& only_one();

  std::mutex mutex_;
  std::vector<std::unique_ptr<std::uint64_t[]>> spare_;
  std::vector<Filled> filled_;
  std::uint64_t dropped_ = 0;
};

}  // namespace ridgepoint::cuda
