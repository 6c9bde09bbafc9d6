// The buffers to which CUPTI writes its records, 4 MiB each, requested and completed on any thread. CUPTI's callbacks
// have no user pointer, so a process has one such object.
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
  // Allocated before recording begins, so that a step rarely waits for memory: 1,000 launches fill a quarter of one.
  static constexpr std::size_t kReady = 4;

  struct Filled {
    std::unique_ptr<std::uint64_t[]> memory;  // records are aligned to 8 bytes
    std::size_t bytes = 0;
  };

  // Made and registered with CUPTI at first use. Throws Error.
  static CuptiBuffers& instance();

  // The buffers filled since the last call, and the number of records for which CUPTI had no buffer.
  std::vector<Filled> take();
  std::uint64_t take_dropped();
  void give_back(std::vector<Filled> buffers);

 private:
  CuptiBuffers();

  static void requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
  static void completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                        std::size_t valid_bytes);

  // Never deleted, because CUPTI's thread may outlive static objects.
  static CuptiBuffers& only_one();

  std::mutex mutex_;
  std::vector<std::unique_ptr<std::uint64_t[]>> spare_;
  std::vector<Filled> filled_;
  std::uint64_t dropped_ = 0;
};

}  // namespace ridgepoint::cuda
