#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "report/report_page.h"

namespace ridgepoint::tables {
namespace {

using ::testing::Ge;
using ::testing::Le;

// Phases that allocate activations and release them, with temporaries in between, and one high level in the middle.
Json long_timeline(int phases, int events_each) {
  std::string csv = "event,time_ms,iteration,phase,action,category,bytes,allocated_bytes,reserved_bytes\n";
  std::int64_t level = 0;
  int event = 0;
  const auto add = [&](int phase, const char* action, const char* category, std::int64_t bytes) {
    level += std::string_view(action) == "alloc" ? bytes : -bytes;
    csv += fmt::format("{},{},{},{},{},{},{},{},{}\n", event, event * 0.5, 1 + phase / 2,
                       phase % 2 == 0 ? "forward" : "backward", action, category, bytes, level, 1 << 30);
    ++event;
  };
  for (int phase = 0; phase < phases; ++phase) {
    for (int i = 0; i < events_each; ++i) {
      add(phase, phase % 2 == 0 ? "alloc" : "free", "activation", 512);
      const std::int64_t bytes = i == events_each / 3 ? 1 << 28 : 4096;
      add(phase, "alloc", "temporary", bytes);
      add(phase, "free", "temporary", bytes);
    }
  }
  return timeline_columns(csv);
}

// The highest level of each phase of each iteration.
std::map<std::string, std::int64_t> peaks_of(const Json& columns) {
  std::map<std::string, std::int64_t> peaks;
  for (std::size_t i = 0; i < columns["bytes"].size(); ++i) {
    const Json& origin = columns["origins"][columns["origin"][i].get<std::size_t>()];
    std::int64_t& peak = peaks[origin["phase"].get<std::string>() + columns["iteration"][i].dump()];
    peak = std::max(peak, columns["allocated_bytes"][i].get<std::int64_t>());
  }
  return peaks;
}

// Whether the changes of the categories add up to the level after every event.
bool adds_up(const Json& columns) {
  std::map<std::string, std::int64_t> categories;
  for (std::size_t i = 0; i < columns["bytes"].size(); ++i) {
    const Json& origin = columns["origins"][columns["origin"][i].get<std::size_t>()];
    const std::int64_t bytes = columns["bytes"][i].get<std::int64_t>();
    categories[origin["category"]] += origin["action"] == "alloc" ? bytes : -bytes;
    std::int64_t sum = 0;
    for (const auto& [category, level] : categories) {
      if (level < 0) return false;
      sum += level;
    }
    if (sum != columns["allocated_bytes"][i].get<std::int64_t>()) return false;
  }
  return true;
}

TEST(ThinTimeline, keeps_every_peak_and_what_it_is_made_of) {
  const Json whole = long_timeline(6, 2000);
  const Json thin = thin_timeline(whole, 1000);
  EXPECT_THAT(thin["bytes"].size(), Le(1000U));
  EXPECT_THAT(thin["bytes"].size(), Ge(200U));
  EXPECT_EQ(peaks_of(thin), peaks_of(whole));
  EXPECT_TRUE(adds_up(whole));
  EXPECT_TRUE(adds_up(thin));
  EXPECT_EQ(thin["time_ms"].back(), whole["time_ms"].back());
  EXPECT_TRUE(std::ranges::is_sorted(thin["time_ms"].get<std::vector<double>>()));
  EXPECT_EQ(thin["event"].back(), whole["event"].back());
  const std::set<std::size_t> origins(thin["origin"].begin(), thin["origin"].end());
  EXPECT_EQ(origins.size(), thin["origins"].size()) << "of the events that are left alone";
  EXPECT_TRUE(std::ranges::is_sorted(thin["event"].get<std::vector<int>>()));
}

TEST(ThinTimeline, keeps_every_phase_however_many_there_are) {
  const Json whole = long_timeline(300, 10);
  EXPECT_EQ(peaks_of(thin_timeline(whole, 100)), peaks_of(whole));
}

TEST(ThinTimeline, leaves_a_short_timeline_as_it_is) {
  const Json whole = long_timeline(2, 10);
  EXPECT_EQ(thin_timeline(whole, 60), whole);
}

}  // namespace
}  // namespace ridgepoint::tables
