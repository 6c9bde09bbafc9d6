#include "report/thin_timeline.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ridgepoint::views {
namespace {

constexpr std::array kColumns = {"time_ms", "bytes", "allocated_bytes", "reserved_bytes", "iteration", "origin"};
constexpr const char* kMerged = "several events, added up";

struct Origin {
  std::string phase, category;
  int sign = 0;  // of its bytes in the level
};

class Thinner {
 public:
  explicit Thinner(const Json& columns) : columns_(columns), origins_(columns["origins"]) {
    for (const Json& origin : columns["origins"]) {
      const std::string action = origin.value("action", "");
      known_.push_back({origin.value("phase", ""), origin.value("category", ""),
                        action == "alloc"  ? 1
                        : action == "free" ? -1
                                           : 0});
    }
    for (std::size_t i = 0; i < kColumns.size(); ++i) thinned_[i] = Json::array();
  }

  // Stretches have this many events, and end where a phase ends.
  Json thin(std::size_t length) {
    for (std::size_t begin = 0; begin < size();) {
      std::size_t end = begin + 1;
      while (end < size() && end < begin + length && is_same_phase(begin, end)) ++end;
      add_stretch(begin, end);
      begin = end;
    }
    Json result = {{"origins", std::move(origins_)}};
    for (std::size_t i = 0; i < kColumns.size(); ++i) result[kColumns[i]] = std::move(thinned_[i]);
    return result;
  }

 private:
  std::size_t size() const { return columns_["bytes"].size(); }
  const Origin& origin(std::size_t event) const { return known_[columns_["origin"][event].get<std::size_t>()]; }
  std::int64_t level(std::size_t event) const { return columns_["allocated_bytes"][event].get<std::int64_t>(); }
  bool is_same_phase(std::size_t a, std::size_t b) const {
    return origin(a).phase == origin(b).phase && columns_["iteration"][a] == columns_["iteration"][b];
  }

  void add_stretch(std::size_t begin, std::size_t end) {
    std::size_t low = begin, high = begin;
    for (std::size_t event = begin; event < end; ++event) {
      if (level(event) < level(low)) low = event;
      if (level(event) > level(high)) high = event;
    }
    std::size_t next = begin;
    for (const std::size_t kept : {begin, std::min(low, high), std::max(low, high), end - 1}) {
      if (kept < next) continue;
      if (next < kept) add_merged(next, kept);
      for (std::size_t i = 0; i < kColumns.size(); ++i) thinned_[i].push_back(columns_[kColumns[i]][kept]);
      next = kept + 1;
    }
  }

  // What the events change, releases first, so that no level lies above those that were.
  void add_merged(std::size_t begin, std::size_t end) {
    std::map<std::string, std::int64_t> changes;
    std::int64_t sum = 0;
    for (std::size_t event = begin; event < end; ++event) {
      const std::int64_t change = origin(event).sign * columns_["bytes"][event].get<std::int64_t>();
      changes[origin(event).category] += change;
      sum += change;
    }
    const std::size_t last = end - 1;
    std::int64_t now = level(last) - sum;
    for (const bool is_release : {true, false}) {
      for (const auto& [category, change] : changes) {
        if (change == 0 || (change < 0) != is_release) continue;
        now += change;
        const Json row = {columns_["time_ms"][last],
                          std::abs(change),
                          now,
                          columns_["reserved_bytes"][last],
                          columns_["iteration"][last],
                          merged_origin(origin(last).phase, category, is_release)};
        for (std::size_t i = 0; i < kColumns.size(); ++i) thinned_[i].push_back(row[i]);
      }
    }
  }

  std::size_t merged_origin(const std::string& phase, const std::string& category, bool is_release) {
    const auto [known, is_new] = merged_.try_emplace({phase, category, is_release}, origins_.size());
    if (is_new) {
      origins_.push_back({{"action", is_release ? "free" : "alloc"},
                          {"phase", phase},
                          {"category", category},
                          {"op", ""},
                          {"module", kMerged},
                          {"source", ""}});
    }
    return known->second;
  }

  const Json& columns_;
  std::vector<Origin> known_;
  Json origins_;
  std::map<std::tuple<std::string, std::string, bool>, std::size_t> merged_;
  std::array<Json, kColumns.size()> thinned_;
};

}  // namespace

Json thin_timeline(const Json& columns, std::size_t most) {
  const std::size_t events = columns["bytes"].size();
  if (events <= most) return columns;
  // A stretch becomes some eight events; phases end some of them early, and then longer ones are needed.
  for (std::size_t length = 8 * events / most; length < events; length *= 2) {
    Json thinned = Thinner(columns).thin(length);
    if (thinned["bytes"].size() <= most) return thinned;
  }
  return Thinner(columns).thin(events);
}

}  // namespace ridgepoint::views
