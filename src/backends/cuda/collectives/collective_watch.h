// Notices a collective that does not end, and gives the run up.
//
//   stream of marks:       mark_begin(k)   mark_end(k)
//   word in host memory:    2 k + 1         2 k + 2
//   thread:                 sees 2 k + 1, sets 0; if the word is still 0 after the limit, collective k has hung
//
// The marks are fills of the word. A fill takes less than 2 us, half as long as a write of the stream itself
// (cuStreamWriteValue32). In a captured run the stream of collectives makes them, around each collective, and kernels
// beside it hide them. Otherwise they are on a stream of their own, and some collectives share a pair of them
// (eager_launches.h).
// The thread replaces the word with an atomic exchange: a mark that the GPU makes meanwhile is never lost, and a
// collective that runs in every iteration is seen anew in each.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/collectives/nccl.h"
#include "backends/cuda/driver/context.h"

namespace ridgepoint::cuda {

class CollectiveWatch {
 public:
  using Number = std::uint32_t;

  // Watches the collectives of a communicator until the process ends. One that takes longer than `limit`, and an error
  // that NCCL notes while a collective runs, makes the context fail, so that a thread that waits for it throws the
  // message. Nothing ends the work itself: a copy engine that waits for another card cannot be told to stop. A thread
  // that does not come to wait, because the driver takes no more launches, throws nothing, and one that has thrown may
  // be held up by the driver as it ends, so after a while `leave` is called with the message; it ends the process.
  CollectiveWatch(const CudaContext& context, NcclHandle handle, std::chrono::duration<double> limit,
                  std::function<void(const std::string&)> leave);
  CollectiveWatch(const CollectiveWatch&) = delete;
  CollectiveWatch& operator=(const CollectiveWatch&) = delete;

  // Also asks this communicator for errors.
  void watch(NcclHandle handle);

  // A number for a collective, which is free again after remove(). `description` is for messages.
  Number add(std::string description);
  void remove(Number number);

  // On the stream: when the collective begins, and when it has ended.
  void mark_begin(Number number, CUstream stream) { mark(2 * number + 1, stream); }
  void mark_end(Number number, CUstream stream) { mark(2 * number + 2, stream); }

 private:
  void mark(std::uint32_t value, CUstream stream);
  void run();
  // The message if something is wrong now.
  std::string problem();
  std::string noted_error();
  std::string description_of(Number number);

  const CudaContext& context_;
  const std::chrono::duration<double> limit_;
  const std::function<void(const std::string&)> leave_;
  // Host memory that the GPU writes. It is not the driver's own, because the thread may read it while the process ends
  // and the driver has gone.
  std::uint32_t* word_ = nullptr;
  CUdeviceptr word_on_card_ = 0;
  std::mutex mutex_;
  std::vector<NcclHandle> handles_;
  std::map<Number, std::string> descriptions_;

  // Of the thread alone.
  bool is_running_ = false;
  Number running_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace ridgepoint::cuda
