// The thread that calls MPI. Collectives run on it one after another, while the thread that computes goes on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/mpi/library.h"
#include "runtime/device/communicator.h"

namespace ridgepoint {

class CommunicationThread {
 public:
  using Ticket = std::uint64_t;

  // Initialises MPI, on the new thread. A collective that takes longer than `limit` has failed.
  CommunicationThread(MpiLibrary& library, std::chrono::duration<double> limit);
  // Finalises MPI after the last collective; not after abandon().
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  const MpiLibrary::Place& place() const { return place_; }
  double limit_seconds() const { return limit_.count(); }

  // `begin` begins collectives of the library, whose memory stays valid until wait(). `name` is for messages.
  enum class Purpose : std::uint8_t { exchange, collective };  // collective: a node of a graph
  using TimeLimit = ProcessGroup::TimeLimit;
  Ticket start(std::function<void(MpiLibrary&)> begin, std::string name, Purpose purpose = Purpose::exchange,
               TimeLimit limit = TimeLimit::of_collectives);
  // Waits until the collectives of a ticket have ended. Throws Error where they, or any before them, took too long.
  void wait(Ticket ticket);

  // Notes when collectives run, until take() returns that in their order.
  void note();
  std::vector<CollectiveSpan> take();

  // The other ranks cannot be reached any more: the destructor does not wait for them.
  void abandon();

 private:
  struct Job {
    std::function<void(MpiLibrary&)> begin;
    std::string name;
    Purpose purpose = Purpose::exchange;
    TimeLimit limit = TimeLimit::of_collectives;
  };

  void run();
  void run(const Job& job);

  MpiLibrary& library_;
  const std::chrono::duration<double> limit_;
  MpiLibrary::Place place_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Ticket started_ = 0, ended_ = 0;  // numbers of jobs; job 1 is the initialisation
  bool stops_ = false;
  bool notes_ = false;
  std::vector<CollectiveSpan> spans_;
  std::string failure_;
  std::thread thread_;
};

}  // namespace ridgepoint
