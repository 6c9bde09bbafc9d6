// The processes that mpirun or a scheduler started, by MPI.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/communication_thread.h"
#include "backends/mpi/library.h"
#include "runtime/device/communicator.h"
#include "runtime/device/process_group.h"

namespace ridgepoint {

// Collectives by MPI, for devices whose memory is the host's. They run in a thread of their own.
std::shared_ptr<Communicator> make_mpi_communicator(CommunicationThread& thread);

class MpiGroup : public ProcessGroup {
 public:
  // Loads the library and initialises MPI, which a process can do once. Throws Error (unsupported) where this build or
  // machine has no MPI.
  explicit MpiGroup(std::chrono::duration<double> collective_limit);

  int rank() const override { return thread_.place().rank; }
  int ranks() const override { return thread_.place().ranks; }
  int rank_on_host() const override { return thread_.place().rank_on_host; }
  int ranks_on_host() const override { return thread_.place().ranks_on_host; }
  double collective_limit_seconds() const override { return thread_.limit_seconds(); }
  std::shared_ptr<Communicator> make_host_communicator() override { return make_mpi_communicator(thread_); }
  void note_collectives() override { thread_.note(); }
  std::vector<CollectiveSpan> take_collectives() override { return thread_.take(); }
  [[noreturn]] void abort(int exit_code) override;

 protected:
  std::vector<std::string> exchange(const std::string& mine, std::string_view what, TimeLimit limit) override;

 private:
  void gather(const void* in, void* out, std::size_t bytes, std::string_view what, TimeLimit limit);

  MpiLibrary& library_;
  CommunicationThread thread_;
};

}  // namespace ridgepoint
