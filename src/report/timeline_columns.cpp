#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/report_file.h"
#include "ridgepoint/error.h"

namespace ridgepoint::views {
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
  if (problem != std::errc() || end != text.data() + text.size()) {
    throw Error(fmt::format("'{}' is not a number; column {} has numbers", text, column));
  }
  return value;
}

class TimelineReader {
 public:
  explicit TimelineReader(std::string_view csv) : csv_(csv) {
    if (!csv_.next(fields_)) throw Error("it is empty");
    for (std::size_t i = 0; i < fields_.size(); ++i) places_[fields_[i]] = i;
    for (const std::string_view name : kRequired) {
      if (!places_.contains(std::string(name))) throw Error(fmt::format("the timeline has no column {}", name));
    }
  }

  Json read() {
    const std::size_t columns = fields_.size();
    while (csv_.next(fields_)) {
      if (fields_.size() != columns) throw Error(fmt::format("{} fields instead of {}", fields_.size(), columns));
      add();
    }
    return {{"origins", origins_},           {"time_ms", times_},           {"bytes", bytes_},
            {"allocated_bytes", allocated_}, {"reserved_bytes", reserved_}, {"iteration", iterations_},
            {"origin", event_origins_}};
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
       reserved_ = Json::array(), iterations_ = Json::array(), event_origins_ = Json::array();
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
    throw Error(fmt::format("line {}: {}", line, error.what()));
  }
}

}  // namespace ridgepoint::views
