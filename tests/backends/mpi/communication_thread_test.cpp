// The thread that calls MPI, with a library whose collectives end when the test says so.
#include "backends/mpi/communication_thread.h"

#include <atomic>

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using TimeLimit = ProcessGroup::TimeLimit;

class SlowLibrary : public MpiLibrary {
 public:
  Place initialise(Sum, Sum) override { return {}; }
  void begin_all_reduce(const void*, void*, std::size_t, Type) override {}
  void begin_reduce_scatter(const void*, void*, std::size_t, Type) override {}
  void begin_all_gather(const void*, void*, std::size_t) override { is_done = false; }
  void begin_broadcast(void*, std::size_t, int) override {}
  bool test() override { return is_done; }
  void finalise() override {}
  void abort(int) override {}

  std::atomic<bool> is_done{true};
};

constexpr std::chrono::milliseconds kLimit{20};

CommunicationThread::Ticket start_gather(CommunicationThread& thread, TimeLimit limit) {
  return thread.start([](MpiLibrary& mpi) { mpi.begin_all_gather(nullptr, nullptr, 0); }, "the exchange of words",
                      CommunicationThread::Purpose::exchange, limit);
}

TEST(CommunicationThread, gives_up_what_takes_longer_than_the_limit) {
  auto& library = *new SlowLibrary;  // as in a process that ends, both stay: the thread goes on asking the library
  auto& thread = *new CommunicationThread(library, kLimit);
  const CommunicationThread::Ticket ticket = start_gather(thread, TimeLimit::of_collectives);
  EXPECT_THAT(error_of([&] { thread.wait(ticket); }), HasSubstr("the exchange of words did not end within 0.02 s"));
}

TEST(CommunicationThread, waits_for_ever_where_there_is_no_limit) {
  SlowLibrary library;
  CommunicationThread thread(library, kLimit);
  const CommunicationThread::Ticket ticket = start_gather(thread, TimeLimit::none);
  std::this_thread::sleep_for(5 * kLimit);
  library.is_done = true;
  EXPECT_NO_THROW(thread.wait(ticket));
}

}  // namespace
}  // namespace ridgepoint
