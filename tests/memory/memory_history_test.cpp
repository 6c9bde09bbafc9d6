#include "memory/memory_history.h"

#include <limits>
#include <utility>

#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Event = MemoryHistory::Event;

std::vector<std::int64_t> times_of(const MemoryHistory& history) {
  std::vector<std::int64_t> times;
  history.walk([&](std::size_t, const Event& event) { times.push_back(event.time_us); });
  return times;
}

TEST(MemoryHistory, gives_events_back_as_they_came) {
  MemoryHistory history;
  constexpr std::size_t kEvents = 10'000;
  for (std::size_t i = 0; i < kEvents; ++i) {
    const MemoryHistory::Request request{i % 7, static_cast<std::uint32_t>(i % 3), static_cast<std::uint32_t>(i % 5),
                                         1};
    history.add(static_cast<MemoryEventKind>(i % 9), i % 1001 * 512, request, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(history.place_count(), 1001u);
  EXPECT_EQ(history.request_count(), 7u * 3 * 5);
  std::size_t seen = 0;
  history.walk([&](std::size_t index, const Event& event) {
    EXPECT_EQ(index, seen++);
    EXPECT_EQ(event.kind, static_cast<MemoryEventKind>(index % 9));
    EXPECT_EQ(history.address(event.place), index % 1001 * 512);
    EXPECT_EQ(history.request(event.request).size_bytes, index % 7);
    EXPECT_EQ(event.time_us, static_cast<std::int64_t>(index));
    EXPECT_EQ(history.added_event(index).time_us, event.time_us);
  });
  EXPECT_EQ(seen, kEvents);
}

TEST(MemoryHistory, holds_times_that_go_back_or_far_ahead) {
  MemoryHistory history;
  const std::vector<std::int64_t> times = {
      1'700'000'000'000'000, 1'700'000'000'000'001, 5, -7, std::numeric_limits<std::int32_t>::max(),
      1'800'000'000'000'000};
  for (const std::int64_t time : times) history.add(MemoryEventKind::alloc, 1, {}, time);
  EXPECT_EQ(times_of(history), times);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(history.added_event(i).time_us, times[i]);
}

TEST(MemoryHistory, an_event_without_a_time_has_that_of_the_one_before) {
  MemoryHistory history;
  history.add(MemoryEventKind::alloc, 1, {}, 100);
  history.add(MemoryEventKind::alloc, 1, {}, std::nullopt);
  history.add(MemoryEventKind::alloc, 1, {}, 101);
  EXPECT_THAT(times_of(history), ElementsAre(100, 100, 101));
}

TEST(MemoryHistory, a_requested_free_and_its_completion_are_one_event_where_they_follow_one_another) {
  using enum MemoryEventKind;
  MemoryHistory history;
  std::int64_t time = 0;
  for (const auto& [kind, address] : std::vector<std::pair<MemoryEventKind, std::uint64_t>>{
           {alloc, 1}, {free_requested, 1}, {free_completed, 1}, {free_requested, 2}, {alloc, 3}, {free_completed, 2}})
    history.add(kind, address, {}, ++time);
  std::vector<MemoryEventKind> kinds;
  history.walk([&](std::size_t index, const Event& event) {
    EXPECT_EQ(index, kinds.size());
    kinds.push_back(event.kind);
  });
  EXPECT_THAT(kinds, ElementsAre(alloc, free, free_requested, alloc, free_completed));
  EXPECT_EQ(history.size(), kinds.size());
  EXPECT_THAT(times_of(history), ElementsAre(1, 2, 4, 5, 6));
}

TEST(MemoryHistory, a_walk_may_be_stopped_at_every_65536th_event) {
  MemoryHistory history;
  for (int i = 0; i < 200'000; ++i) history.add(MemoryEventKind::alloc, 1, {}, i);
  std::size_t seen = 0;
  std::vector<std::size_t> stops;
  history.walk([&](std::size_t, const Event&) { ++seen; }, [&] { stops.push_back(seen); });
  EXPECT_EQ(seen, 200'000u);
  EXPECT_THAT(stops, ElementsAre(0, 65'536, 131'072, 196'608));
}

}  // namespace
}  // namespace ridgepoint
