// A timeline of memory for the page: reads its columns from CSV, and reduces its events.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/text/throw_error.h"
#include "report/report_page.h"

namespace ridgepoint::tables {
namespace {

constexpr std::array<std::string_view, 4> kRequired = {"time_ms", "bytes", "allocated_bytes", "reserved_bytes"};
constexpr std::array<std::string_view, 6> kOrigin = {"action", "phase", "category", "op", "module", "source"};

// Reads CSV (RFC 4180) row by row.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {}

  std::size_t line() const { return line_; }

  // False at the end of the text.
  bool next(std::vector<std::string>& fields) {
    if (at_ >= text_.size()) return false;
    ++line_;
    fields.clear();
    do fields.push_back(field());
    while (at_ < text_.size() && text_[at_] == ',' && ++at_ <= text_.size());
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] != '\n') throw Error("text after a quoted field");
    ++at_;
    return true;
  }

 private:
  std::string field() {
    if (at_ >= text_.size() || text_[at_] != '"') {
      const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      std::string plain(text_.substr(at_, end - at_));
      at_ = end;
      return plain;
    }
    std::string quoted;
    for (++at_;; ++at_) {
      if (at_ >= text_.size()) throw Error("a quoted field has no end");
      if (text_[at_] != '"') {
        quoted += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        quoted += text_[++at_];
      } else {
        ++at_;
        return quoted;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;  // of the row that was read last, if no field has a line break
};

template <typename Number>
Number number(const std::string& text, std::string_view column, Number if_empty) {
  if (text.empty()) return if_empty;
  Number value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    throw_error("'{}' is not a number; column {} has numbers", text, column);
  return value;
}

class TimelineReader {
 public:
  explicit TimelineReader(std::string_view csv) : csv_(csv) {
    if (!csv_.next(fields_)) throw Error("it is empty");
    for (std::size_t i = 0; i < fields_.size(); ++i) places_[fields_[i]] = i;
    for (const std::string_view name : kRequired) {
      if (!places_.contains(std::string(name))) throw_error("the timeline has no column {}", name);
    }
  }

  Json read() {
    const std::size_t columns = fields_.size();
    while (csv_.next(fields_)) {
      if (fields_.size() != columns) throw_error("{} fields instead of {}", fields_.size(), columns);
      add();
    }
    return {{"origins", origins_},
            {"time_ms", times_},
            {"bytes", bytes_},
            {"allocated_bytes", allocated_},
            {"reserved_bytes", reserved_},
            {"iteration", iterations_},
            {"origin", event_origins_},
            {"event", numbers_}};
  }

  std::size_t line() const { return csv_.line(); }

 private:
  const std::string& cell(std::string_view column) const {
    static const std::string nothing;
    const auto found = places_.find(column);
    return found == places_.end() ? nothing : fields_[found->second];
  }
  std::int64_t integer(std::string_view column, std::int64_t if_empty) const {
    return number(cell(column), column, if_empty);
  }

  void add() {
    times_.push_back(json_number(number(cell("time_ms"), "time_ms", 0.0)));
    bytes_.push_back(integer("bytes", 0));
    allocated_.push_back(integer("allocated_bytes", 0));
    reserved_.push_back(integer("reserved_bytes", 0));
    iterations_.push_back(integer("iteration", -1));
    numbers_.push_back(integer("event", static_cast<std::int64_t>(numbers_.size())));
    std::array<std::string, kOrigin.size()> origin;
    for (std::size_t i = 0; i < kOrigin.size(); ++i) origin[i] = cell(kOrigin[i]);
    const auto [known, is_new] = known_origins_.try_emplace(origin, known_origins_.size());
    event_origins_.push_back(known->second);
    if (!is_new) return;
    Json& added = origins_.emplace_back(Json::object());
    for (std::size_t i = 0; i < kOrigin.size(); ++i) added[std::string(kOrigin[i])] = origin[i];
  }

  CsvReader csv_;
  std::vector<std::string> fields_;
  std::map<std::string, std::size_t, std::less<>> places_;
  std::map<std::array<std::string, kOrigin.size()>, std::size_t> known_origins_;
  Json origins_ = Json::array(), times_ = Json::array(), bytes_ = Json::array(), allocated_ = Json::array(),
       reserved_ = Json::array(), iterations_ = Json::array(), event_origins_ = Json::array(), numbers_ = Json::array();
};

constexpr std::array kColumns = {"time_ms", "bytes", "allocated_bytes", "reserved_bytes", "iteration",
                                 "origin",  "event"};
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
    Json result = {{"origins", Json::array()}};
    for (std::size_t i = 0; i < kColumns.size(); ++i) result[kColumns[i]] = std::move(thinned_[i]);
    // The origins of the events that are left.
    std::map<std::size_t, std::size_t> places;
    for (Json& origin : result["origin"]) {
      const auto [place, is_new] = places.try_emplace(origin.get<std::size_t>(), places.size());
      if (is_new) result["origins"].push_back(origins_[place->first]);
      origin = place->second;
    }
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

  // One event for each category adds up the changes. Releases come first, so no level exceeds the old highest level.
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
                          merged_origin(origin(last).phase, category, is_release),
                          columns_["event"][last]};
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

Json timeline_columns(std::string_view csv) {
  std::size_t line = 1;
  try {
    TimelineReader reader(csv);
    try {
      return reader.read();
    } catch (const Error&) {
      line = reader.line();
      throw;
    }
  } catch (const Error& error) {
    throw_error("line {}: {}", line, error.what());
  }
}

Json thin_timeline(const Json& columns, std::size_t most) {
  const std::size_t events = columns["bytes"].size();
  if (events <= most) return columns;
  // A stretch becomes about eight events. Phases end some stretches early; then the others must be longer.
  for (std::size_t length = 8 * events / most; length < events; length *= 2) {
    Json thinned = Thinner(columns).thin(length);
    if (thinned["bytes"].size() <= most) return thinned;
  }
  return Thinner(columns).thin(events);
}

}  // namespace ridgepoint::tables
