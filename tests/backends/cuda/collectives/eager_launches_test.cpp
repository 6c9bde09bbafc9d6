// Marks, events and waits of collectives that are not captured, on the fake GPU.
#include "backends/cuda/collectives/eager_launches.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/fake/on_fake_card.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::EagerLaunches;

char stream_of_collectives, stream_of_marks;

struct EagerLaunchesOnFakeCard : testing::OnFakeCard {
  static inline std::vector<std::uint32_t> marks;
  static inline std::vector<std::string> order;

  // Calls `body` with the launches, and with a function that launches a collective of so many bytes.
  template <typename Body>
  void run(const Body& body) {
    on_fake_card([&] {
      CudaContext& context = CudaContext::of_card(0);
      const CudaContext::Scope scope(context);
      // The watch and its thread stay until the process ends.
      auto& watch = *new cuda::CollectiveWatch(context, nullptr, std::chrono::hours(1), [](const std::string&) {});
      EagerLaunches launches(context, reinterpret_cast<cuda::CUstream>(&stream_of_collectives),
                             reinterpret_cast<cuda::CUstream>(&stream_of_marks), watch);
      cuda::StreamPoint begin(context), end(context);
      watch.add("the first");
      watch.add("the second");
      body(launches, [&](std::uint32_t number, std::size_t bytes) {
        launches.before(number, bytes, begin, end);
        launches.after();
      });
    });
  }

  // The values of marks since the last call: collective k begins with 2 k + 1 and ends with 2 k + 2.
  static std::vector<std::uint32_t> new_marks() { return std::exchange(marks, {}); }
  static void watch_marks() {
    watch_card([](const FakeWork& work) {
      if (work.word != nullptr) marks.push_back(work.value);
    });
  }

  // The records and waits of streams since the last call.
  static std::vector<std::string> new_order() { return std::exchange(order, {}); }
  static void watch_order() {
    fake_function<decltype(fake_card_watch_streams)>("fake_card_watch_streams")([](void* stream, bool waits) {
      const std::string name = stream == &stream_of_collectives ? "collectives"
                               : stream == &stream_of_marks     ? "marks"
                                                                : "compute";
      order.push_back(name + (waits ? " waits" : " records"));
    });
  }
};

TEST_F(EagerLaunchesOnFakeCard, one_launch_has_marks_of_its_own) {
  run([](EagerLaunches& launches, const auto& launch) {
    watch_marks();
    launch(0, 1024);
    EXPECT_THAT(new_marks(), ElementsAre(1, 2));
    launch(1, 1024);
    EXPECT_THAT(new_marks(), ElementsAre(3, 4));
    launches.finish(1);
    launch(1, 1024);  // something waited for the one before
    EXPECT_THAT(new_marks(), ElementsAre(3, 4));
    launches.finish();
    EXPECT_THAT(new_marks(), IsEmpty());
  });
}

TEST_F(EagerLaunchesOnFakeCard, launches_behind_the_first_are_marked_together) {
  run([](EagerLaunches& launches, const auto& launch) {
    watch_marks();
    launch(0, 1024);
    launch(0, 1024);
    launch(0, 1024);
    EXPECT_THAT(new_marks(), ElementsAre(1, 2, 1));
    launches.finish(1);  // not this one
    EXPECT_THAT(new_marks(), IsEmpty());
    launch(1, 1024);
    EXPECT_THAT(new_marks(), ElementsAre(2, 3, 4));
    launch(1, 1024);
    launches.finish(1);
    EXPECT_THAT(new_marks(), ElementsAre(3, 4));
  });
}

TEST_F(EagerLaunchesOnFakeCard, few_launches_and_bytes_are_marked_together) {
  run([](EagerLaunches& launches, const auto& launch) {
    watch_marks();
    launch(0, 1);
    launch(0, EagerLaunches::kMostBytes - 1);
    launch(0, 1);
    EXPECT_THAT(new_marks(), ElementsAre(1, 2, 1));
    launch(0, 1);
    EXPECT_THAT(new_marks(), ElementsAre(2, 1));
    launch(0, 2 * EagerLaunches::kMostBytes);
    EXPECT_THAT(new_marks(), ElementsAre(2, 1));
    launch(0, 1);
    EXPECT_THAT(new_marks(), ElementsAre(2, 1));
    for (int i = 1; i < EagerLaunches::kMostLaunches; ++i) launch(0, 1);
    EXPECT_THAT(new_marks(), IsEmpty());
    launch(0, 1);
    EXPECT_THAT(new_marks(), ElementsAre(2, 1));
    launches.finish();
    EXPECT_THAT(new_marks(), ElementsAre(2));
  });
}

TEST_F(EagerLaunchesOnFakeCard, a_collective_waits_for_a_busy_stream_alone) {
  run([](EagerLaunches& launches, const auto& launch) {
    CudaContext::of_card(0).synchronize();
    watch_order();
    launch(0, 1024);
    EXPECT_THAT(new_order(), ElementsAre("collectives records", "marks waits"));
    launches.finish();
    const auto hang = fake_function<decltype(fake_card_hang)>("fake_card_hang");
    hang(true);
    launch(0, 1024);
    EXPECT_THAT(new_order(), ElementsAre("compute records", "collectives waits", "marks waits", "collectives records",
                                         "marks waits"));
    launch(0, 1024);
    launch(0, 1024);
    EXPECT_THAT(new_order(), ElementsAre("compute records", "collectives waits", "marks waits", "compute records",
                                         "collectives waits"));
    hang(false);
    launches.finish();
    EXPECT_THAT(new_order(), ElementsAre("collectives records", "marks waits"));
  });
}

TEST_F(EagerLaunchesOnFakeCard, a_card_that_has_failed_gets_no_more_work) {
  run([](EagerLaunches& launches, const auto& launch) {
    launch(0, 1024);
    launch(0, 1024);
    CudaContext::of_card(0).fail("of a test");
    watch_marks();
    watch_order();
    launches.finish(0);
    EXPECT_THAT(new_marks(), IsEmpty());
    EXPECT_THAT(new_order(), IsEmpty());
  });
}

}  // namespace
}  // namespace ridgepoint
