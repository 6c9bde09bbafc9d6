// The marks of collectives that are not captured, on the fake GPU, whose fills the test watches.
#include "backends/cuda/nccl/eager_launches.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/fake/on_fake_card.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::EagerLaunches;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EagerLaunchesOnFakeCard : public testing::OnFakeCard {
 protected:
  static inline std::vector<std::uint32_t> marks;

  // The values of the marks since the last call.
  static std::vector<std::uint32_t> new_marks() { return std::exchange(marks, {}); }
  static void watch_marks() {
    watch_card([](const FakeWork& work) {
      if (work.word != nullptr) marks.push_back(work.value);
    });
  }
};

// A collective k begins with 2 k + 1 and ends with 2 k + 2.
TEST_F(EagerLaunchesOnFakeCard, launches_of_one_collective_are_marked_as_one) {
  on_fake_card([] {
    CudaContext& context = CudaContext::of_card(0);
    const CudaContext::Scope scope(context);
    CUstream stream = nullptr;
    cuda::check(context.driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "create a stream");
    // The watch and its thread stay until the process ends.
    auto& watch = *new cuda::CollectiveWatch(context, nullptr, std::chrono::hours(1), [](const std::string&) {});
    EagerLaunches launches(context, stream, watch);
    cuda::StreamPoint begin(context), end(context);
    const std::uint32_t first = watch.add("one"), second = watch.add("another");
    const auto launch = [&](std::uint32_t number, std::size_t bytes) { launches.before(number, bytes, begin, end); };
    watch_marks();

    launch(first, 1024);
    EXPECT_THAT(new_marks(), ElementsAre(1));
    launch(first, 1024);
    EXPECT_THAT(new_marks(), IsEmpty());
    launch(second, 1024);
    EXPECT_THAT(new_marks(), ElementsAre(2, 3));
    launches.finish(first);  // it has been finished
    EXPECT_THAT(new_marks(), IsEmpty());
    launches.finish(second);
    EXPECT_THAT(new_marks(), ElementsAre(4));
    launches.finish();
    EXPECT_THAT(new_marks(), IsEmpty());

    launch(first, EagerLaunches::kMostBytes - 1);
    launch(first, 1);
    EXPECT_THAT(new_marks(), ElementsAre(1));
    launch(first, 1);
    EXPECT_THAT(new_marks(), ElementsAre(2, 1));
    launch(first, 2 * EagerLaunches::kMostBytes);
    EXPECT_THAT(new_marks(), ElementsAre(2, 1));
    launches.finish();
    EXPECT_THAT(new_marks(), ElementsAre(2));
    watch_card(nullptr);
  });
}

}  // namespace
}  // namespace ridgepoint
