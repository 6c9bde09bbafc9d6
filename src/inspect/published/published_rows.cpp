#include "inspect/published/published_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text/json.h"
#include "core/text/throw_error.h"
#include "core/text/words.h"

namespace ridgepoint {
namespace {

constexpr std::string_view kPresumed = "_presumed";

// Settings of the run that a row is of; every other number is a figure.
constexpr std::string_view kSizes =
    "batch heads d sequence context layers d_model d_ff warmup steps iterations vocabulary terms parameters addend "
    "bytes_per_element saved_s_by_s_tensors card_memory_gb_as_printed";

struct UnitOfSuffix {
  std::string_view suffix;
  std::string_view unit;
  double milliseconds = 0;  // of times
};
constexpr UnitOfSuffix kUnits[] = {{"_ms", "ms", 1},
                                   {"_us", "us", 1e-3},
                                   {"_ns", "ns", 1e-6},
                                   {"_s", "s", 1e3},
                                   {"ms_per_iteration", "ms", 1},
                                   {"_gb_as_printed", "GB as printed"},
                                   {"_mb_as_printed", "MB as printed"},
                                   {"_gb_as_printed_above", "GB as printed"},
                                   {"_ms_in_summary_table", "ms", 1},
                                   {"_mib", "MiB"},
                                   {"_gib", "GiB"},
                                   {"_gb", "GB"},
                                   {"_bytes", "B"},
                                   {"thousand_tokens_per_second_as_printed", "k tokens/s"},
                                   {"tokens_per_second", "tokens/s"},
                                   {"percent", "%"},
                                   {"percent_as_printed", "%"},
                                   {"percent_low", "%"},
                                   {"percent_high", "%"},
                                   {"percent_faster_than_fp32_as_printed", "%"}};

const UnitOfSuffix* unit_of(std::string_view quantity) {
  const auto* found =
      std::ranges::find_if(kUnits, [&](const UnitOfSuffix& unit) { return quantity.ends_with(unit.suffix); });
  return found == std::end(kUnits) ? nullptr : found;
}

bool is_size(std::string_view name) {
  if (name.ends_with(kPresumed)) name.remove_suffix(kPresumed.size());
  static const std::vector<std::string_view> sizes = words_of(kSizes);
  return std::ranges::find(sizes, name) != sizes.end();
}

// Takes the fields of a row as they are parsed. A parser that keeps values alone would lose trailing zeros.
class RowReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit RowReader(PublishedRow& row) : row_(row) {}

  bool null() override { return true; }
  bool boolean(bool value) override { return text(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value), fmt::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value), fmt::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& printed) override { return number(value, printed); }
  bool string(string_t& value) override { return text(value); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override {
    if (++depth_ > 1) throw_error("field '{}' is an object", key_);
    return true;
  }
  bool key(string_t& name) override {
    if (std::ranges::find(keys_, name) != keys_.end()) throw_error("field '{}' is there twice", name);
    keys_.push_back(name);
    key_ = name;
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t /*size*/) override { return in_list_ = true; }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    throw_error("is no JSON: {}", error.what());
  }

 private:
  bool text(const std::string& value) {
    if (key_ == "study") {
      row_.study = value;
    } else if (key_ == "table" || key_ == "topic") {
      row_.table = value;
    } else if (key_ == "card") {
      row_.card = value;
    } else if (key_ == "card_basis") {
      row_.card_basis = value;
    } else if (key_ == "status") {
      row_.status = value;
    } else if (key_ == "note" || key_ == "check_against_own_rows") {
      row_.note = value;
    } else {
      row_.texts[key_] = value;
    }
    return true;
  }

  bool number(double value, const std::string& printed) {
    if (!std::isfinite(value)) throw_error("field '{}' is {}, which is not finite", key_, printed);
    if (in_list_) return true;  // samples, shapes: shown nowhere
    if (is_size(key_)) {
      row_.sizes[key_] = static_cast<std::int64_t>(value);
      return true;
    }
    const UnitOfSuffix* unit = unit_of(key_);
    row_.figures.push_back({key_, unit == nullptr ? "" : std::string(unit->unit), printed, value});
    return true;
  }

  PublishedRow& row_;
  std::string key_;
  std::vector<std::string> keys_;
  int depth_ = 0;
  bool in_list_ = false;
};

// A time in milliseconds: the rows of profiles mix units.
std::optional<double> milliseconds(const PublishedRow& row, std::string_view statistic) {
  for (const PublishedFigure& figure : row.figures) {
    const UnitOfSuffix* unit = unit_of(figure.quantity);
    if (unit == nullptr || unit->milliseconds == 0) continue;
    if (figure.quantity == fmt::format("{}{}", statistic, unit->suffix)) return figure.value * unit->milliseconds;
  }
  return std::nullopt;
}

void check_order(const PublishedRow& row, std::string_view low, std::string_view high) {
  const std::optional<double> least = milliseconds(row, low);
  const std::optional<double> most = milliseconds(row, high);
  if (least && most && *least > *most) throw_error("its {} is above its {}", low, high);
}

void check(const PublishedRow& row) {
  if (row.study.empty()) throw Error("has no study, so its source is not known");
  if (row.table.empty()) throw Error("has neither a table nor a topic");
  if (row.status != "ok" && row.status != "oom") throw_error("has status '{}'; ok and oom are known", row.status);
  if (!row.card_basis.empty() && (row.card_basis == "not_stated") == row.card.has_value())
    throw_error("has card basis '{}', which contradicts its card", row.card_basis);
  for (const auto& [low, high] : {std::pair("min", "mean"), {"min", "median"}, {"mean", "max"}, {"median", "max"}}) {
    check_order(row, low, high);
  }
}

template <typename Map>
auto find(const Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found == map.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::vector<PublishedRow> parse_published(PublishedKind kind, std::string_view text) {
  std::vector<PublishedRow> rows;
  std::int64_t line_number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++line_number;
    PublishedRow row;
    row.kind = kind;
    row.line = line_number;
    try {
      if (!line.starts_with('{')) throw Error("is no JSON object");
      RowReader reader(row);
      nlohmann::json::sax_parse(line, &reader);
      check(row);
    } catch (const Error& error) {
      throw_error("published figures, {}, line {}: the row {}", name(kind), line_number, error.what());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

const std::vector<PublishedRow>& published_rows() {
  static const std::vector<PublishedRow> rows = [] {
    std::vector<PublishedRow> all;
    for (const PublishedKind kind : kAllPublishedKinds) {
      for (const EmbeddedFile& file : published_files()) {
        const bool is_of_kind = file.name.starts_with(name(kind));
        if (!is_of_kind) continue;
        std::ranges::move(parse_published(kind, file.text), std::back_inserter(all));
      }
    }
    return all;
  }();
  return rows;
}

std::string_view study_words(std::string_view study) {
  if (study == "unnamed_card") return "a card that is not named";
  if (study == "unnamed_98gb") return "a card of 98 GB that is not named";
  return study;
}

std::string statement_of(const PublishedRow& row) {
  const auto sum = row.text("accumulator_dtype"), term = row.text("addend_dtype");
  if (!sum || !term) return "";
  const bool is_cast = row.text("explicit_cast_to_accumulator") == "true";
  return is_cast ? fmt::format("{0} += {0}({1})", *sum, *term) : fmt::format("{} += {}", *sum, *term);
}

std::optional<std::string> PublishedRow::text(std::string_view name) const { return find(texts, name); }
std::optional<std::int64_t> PublishedRow::size(std::string_view name) const { return find(sizes, name); }

}  // namespace ridgepoint
