#include "ridgepoint/record/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "core/files/file.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "core/types/enum_names.h"
#include "record/columns.h"
#include "record/fields.h"
#include "record/usual_values.h"

namespace ridgepoint {
namespace {

constexpr auto kStatusNames = enum_names<RunStatus>("ok", "oom", "unsupported", "error");
constexpr auto kExperimentNames = enum_names<Experiment>("bench", "attention", "profile", "plan", "memory");
constexpr auto kVerdictNames =
    enum_names<TimingVerdict>("steady", "drifting", "bimodal", "outliers", "throttled", "disturbed", "too few");
constexpr auto kEndNames = enum_names<SamplingEnd>("steps", "interval", "time limit");

// A larger file is refused instead of being read into memory; no sweep writes one.
constexpr std::uint64_t kMaxRecordFileBytes = std::uint64_t{1} << 30;

Json encode(const std::string& text) { return text; }
Json encode(std::int64_t value) { return value; }
Json encode(bool value) { return value; }
Json encode(double value) { return json_number(value); }
template <typename Enum>
requires std::is_enum_v<Enum> Json encode(Enum value) { return name(value); }
Json encode(std::span<const double> values) {
  Json array = Json::array();
  for (const double value : values) array.push_back(json_number(value));
  return array;
}
Json encode(const std::vector<std::int64_t>& values) { return values; }
Json encode(const std::vector<std::string>& texts) { return texts; }
template <typename T>
Json encode(const std::optional<T>& value) {
  return value ? encode(*value) : Json(nullptr);
}

Json encode_record(const Record& record) {
  Json json = Json::object();
  visit_fields(record, [&](std::string_view path, const auto& member) {
    const FieldPlace place = place_of_field(path);
    Json& parent = place.object.empty() ? json : json[place.object];
    parent[place.name] = encode(member);
  });
  return json;
}

struct WrongType {
  std::string wanted;
};

void decode(const Json& json, std::string& text) {
  if (!json.is_string()) throw WrongType{"text"};
  text = json.get<std::string>();
}

void decode(const Json& json, std::int64_t& value) {
  const bool fits = json.is_number_unsigned() ? json.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max()
                                              : json.is_number_integer();
  if (!fits) throw WrongType{"a whole number of 64 bits"};
  value = json.get<std::int64_t>();
}

void decode(const Json& json, bool& value) {
  if (!json.is_boolean()) throw WrongType{"true or false"};
  value = json.get<bool>();
}

void decode(const Json& json, double& value) {
  if (!json.is_number() && !json.is_null()) throw WrongType{"a number or null"};
  value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

template <typename Enum>
requires std::is_enum_v<Enum>
void decode(const Json& json, Enum& value) {
  const std::span<const Enum> values = values_of(value);
  const auto found = std::ranges::find_if(
      values, [&](Enum each) { return json.is_string() && json.get_ref<const std::string&>() == name(each); });
  if (found == values.end()) throw WrongType{fmt::format("one of {}", fmt::join(names_of(values), ", "))};
  value = *found;
}

template <typename Number>
requires std::is_arithmetic_v<Number>
void decode(const Json& json, std::vector<Number>& values) {
  if (!json.is_array())
    throw WrongType{std::is_integral_v<Number> ? "an array of whole numbers" : "an array of numbers"};
  values.assign(json.size(), 0);
  for (std::size_t i = 0; i < json.size(); ++i) decode(json[i], values[i]);
}

void decode(const Json& json, std::vector<std::string>& texts) {
  if (!json.is_array()) throw WrongType{"an array of texts"};
  texts.assign(json.size(), "");
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_string()) throw WrongType{"an array of texts"};
    texts[i] = json[i].get<std::string>();
  }
}

void decode(const Json& json, std::array<double, 3>& values) {
  if (!json.is_array() || json.size() != values.size()) throw WrongType{"an array of three numbers"};
  for (std::size_t i = 0; i < values.size(); ++i) decode(json[i], values[i]);
}

template <typename T>
void decode(const Json& json, std::optional<T>& value) {
  if (json.is_null()) {
    value.reset();
  } else {
    decode(json, value.emplace());
  }
}

// The paths of sizes, times and rates.
const std::set<std::string_view>& never_negative_fields() {
  static const std::set<std::string_view> fields = [] {
    std::set<std::string_view> paths;
    for (const Setting& setting : record_settings()) {
      if (!setting.path.empty() && is_never_negative(setting.kind)) paths.insert(setting.path);
    }
    for (const Measure& measure : record_measures()) {
      if (!measure.path.empty() && is_never_negative(measure.kind)) paths.insert(measure.path);
    }
    return paths;
  }();
  return fields;
}

// A statistic of a time has the kind of its time.
bool is_never_negative(std::string_view path, const FieldPlace& place) {
  return never_negative_fields().contains(path) || never_negative_fields().contains(place.object);
}

bool has_negative(const Json& json) {
  if (json.is_array()) return std::ranges::any_of(json, has_negative);
  return json.is_number() && json < 0;
}

const Json* find(const Json& json, std::string_view key) {
  const auto found = json.find(std::string(key));
  return found == json.end() ? nullptr : &*found;
}

void check_schema(std::int64_t schema) {
  if (schema > kRecordSchema)
    throw_error(
        "a newer Ridgepoint wrote it (schema {}; this build reads 1 to {}); use that version, or measure "
        "again with this one",
        schema, kRecordSchema);
  if (schema < 1)
    throw_error("its schema {} is older than any that this build reads (1 to {}); measure again", schema,
                kRecordSchema);
}

// Throws Error for statistics that no samples have, because readers take some figures from the samples and others from
// the statistics.
void check_samples(const Statistics& ms, std::string_view name) {
  if (ms.samples.empty() || std::ranges::any_of(ms.samples, [](double sample) { return std::isnan(sample); })) return;
  const auto [least, most] = std::ranges::minmax(ms.samples);
  const double slack = 1e-6 * most;
  for (const auto& [what, value] : {std::pair{"median", ms.median}, {"min", ms.min}, {"max", ms.max}}) {
    if (!(value < least - slack || value > most + slack)) continue;
    throw_error("field '{}.{}' is {}, and the samples are {} to {}", name, what, value, least, most);
  }
}

Record decode_record(Json& json) {
  if (!json.is_object()) throw Error("a record is a JSON object");
  use_usual_values(json);
  if (!json.contains("schema")) throw Error("field 'schema' is missing: this is not a Ridgepoint record");
  Record record;
  visit_fields(record, [&](std::string_view field, auto& member) {
    const FieldPlace place = place_of_field(field);
    const Json* parent = place.object.empty() ? &json : find(json, place.object);
    if (parent == nullptr) return;
    if (!parent->is_object()) throw_error("field '{}' must be an object", place.object);
    try {
      const Json* value = find(*parent, place.name);
      if (value != nullptr) decode(*value, member);
      if (value != nullptr && is_never_negative(field, place) && has_negative(*value))
        throw WrongType{"0 at least: it is a size, a time or a rate"};
    } catch (const WrongType& wrong) {
      throw_error("field '{}' must be {}", field, wrong.wanted);
    }
    if (field == "schema") check_schema(record.schema);
  });
  // A record of an older schema has 0.
  if (record.model.kv_heads == 0) record.model.kv_heads = record.model.heads;
  const bool is_call = record.experiment == Experiment::attention;
  if (is_call) record.training_step.reset();
  if (!is_call) record.attention_call.reset();
  if (record.training_step) check_samples(record.training_step->time_ms, "time_ms");
  if (record.attention_call) {
    check_samples(record.attention_call->forward_ms, "forward_ms");
    check_samples(record.attention_call->backward_ms, "backward_ms");
  }
  const bool is_plan = record.experiment == Experiment::plan;
  if (!is_plan) record.plan.reset();
  if (!is_plan && record.experiment != Experiment::memory) record.peaks.reset();
  return record;
}

}  // namespace

std::string_view name(RunStatus status) { return kStatusNames[status]; }
std::string_view name(Experiment experiment) { return kExperimentNames[experiment]; }
std::string_view name(TimingVerdict verdict) { return kVerdictNames[verdict]; }
std::string_view name(SamplingEnd end) { return kEndNames[end]; }

std::string to_json(const Record& record) { return dump_json(encode_record(record)); }

std::string to_json(std::span<const Record> records) {
  std::string text = "[";
  for (std::size_t i = 0; i < records.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    text += to_json(records[i]);
  }
  return text + "\n]\n";
}

void use_usual_values(Json& record) {
  for (const Setting& setting : record_settings()) {
    if (setting.path.empty() || setting.option.other_values.empty()) continue;
    const FieldPlace place = place_of_field(setting.path);
    if (!place.object.empty() && !record.contains(place.object)) continue;
    Json& parent = place.object.empty() ? record : record[place.object];
    const auto value = parent.is_object() ? parent.find(place.name) : parent.end();
    if (value != parent.end() && value->is_string())
      *value = usual_value(setting, value->get_ref<const std::string&>());
  }
}

Record record_from_json(std::string_view json) {
  Json record = parse_json(json);
  return decode_record(record);
}

std::vector<Record> read_records(const std::filesystem::path& path) {
  const std::string contents = read_file(path, kMaxRecordFileBytes);
  const std::string_view text = without_byte_order_mark(contents);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  const bool is_array = start != std::string::npos && text[start] == '[';
  std::vector<Record> records;
  std::size_t place = 1;  // line, or position in the array
  try {
    if (is_array) {
      Json parsed = parse_json(text);
      for (Json& json : parsed) {
        records.push_back(decode_record(json));
        ++place;
      }
    }
    for (std::size_t begin = 0; !is_array && begin < text.size(); ++place) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) records.push_back(record_from_json(line));
      begin = end + 1;
    }
  } catch (const Error& error) {
    throw_error("cannot read records from '{}', {} {}: {}", path.string(), is_array ? "record" : "line", place,
                error.what());
  }
  return records;
}

}  // namespace ridgepoint
