#include "inspect/compare/files/foreign_records.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/files/file.h"
#include "core/text/nearest.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "record/fields.h"

namespace ridgepoint {
namespace {

using Cells = std::vector<std::string>;

std::vector<Cells> split(std::string_view text) {
  std::vector<Cells> lines(1, Cells(1));
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& cell = lines.back().back();
    if (is_quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += text[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && c == ',') {
      lines.back().emplace_back();
    } else if (!is_quoted && c == '\n') {
      lines.emplace_back(1);
    } else if (is_quoted || c != '\r') {
      cell += c;
    }
  }
  if (is_quoted) throw_error("row {} has a quotation mark that is not closed", lines.size() - 1);
  std::erase_if(lines, [](const Cells& cells) { return cells.size() == 1 && trimmed(cells.front()).empty(); });
  return lines;
}

// Throws Error for a name that two columns have, since a mapping could mean either.
void require_distinct(const Cells& heading) {
  std::set<std::string_view> names;
  for (const std::string& name : heading) {
    if (!names.insert(trimmed(name)).second)
      throw_error("two columns are called '{}'; rename one of them", trimmed(name));
  }
}

// Throws Error for a row with more or fewer cells than the heading, for two columns of one name, and for a quotation
// mark that is not closed.
std::vector<Json> parse_csv_rows(std::string_view text) {
  const std::vector<Cells> lines = split(text);
  if (!lines.empty()) require_distinct(lines.front());
  std::vector<Json> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].size() != lines[0].size())
      throw_error("row {} has {} cells and the heading has {}; every row needs one for each column", i, lines[i].size(),
                  lines[0].size());
    auto& row = rows.emplace_back(Json::object()).get_ref<Json::object_t&>();
    for (std::size_t c = 0; c < lines[0].size(); ++c) row.emplace_back(trimmed(lines[0][c]), trimmed(lines[i][c]));
  }
  return rows;
}

constexpr std::uint64_t kMostMappingBytes = std::uint64_t{1} << 20;
constexpr std::string_view kSamples = "time_ms.samples";
constexpr std::string_view kMedian = "time_ms.median";

enum class FieldType : std::uint8_t { text, integer, number, boolean, samples };

template <typename T>
struct WithoutOptional {
  using Type = T;
};
template <typename T>
struct WithoutOptional<std::optional<T>> {
  using Type = T;
};

// Empty for a field that a mapping cannot fill.
template <typename Member>
constexpr std::optional<FieldType> type_of() {
  using T = typename WithoutOptional<std::remove_cvref_t<Member>>::Type;
  if constexpr (std::is_same_v<T, std::string> || std::is_enum_v<T>) return FieldType::text;
  if constexpr (std::is_same_v<T, std::int64_t>) return FieldType::integer;
  if constexpr (std::is_same_v<T, double>) return FieldType::number;
  if constexpr (std::is_same_v<T, bool>) return FieldType::boolean;
  return std::nullopt;
}

const std::map<std::string, FieldType>& fields_of_records() {
  static const std::map<std::string, FieldType> known = [] {
    std::map<std::string, FieldType> fields;
    const Record any;
    visit_fields(any, [&](std::string_view path, const auto& member) {
      const std::optional<FieldType> type = type_of<decltype(member)>();
      if (type) fields.emplace(path, *type);
    });
    fields.erase("schema");
    fields.erase("command");
    fields.emplace(kSamples, FieldType::samples);
    return fields;
  }();
  return known;
}

std::optional<double> number_in(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void check_field(const std::string& field) {
  std::vector<std::string_view> names;
  for (const auto& [name, type] : fields_of_records()) names.push_back(name);
  if (std::ranges::find(names, field) != names.end()) return;
  throw_error("'{}' is not a field of a record that a mapping can fill{}; docs/record.md lists the fields", field,
              hint(field, names));
}

Mapping::Entry parse_entry(const std::string& field, const Json& value) {
  check_field(field);
  if (value.is_number() || value.is_boolean()) return {field, value};
  if (!value.is_string() || trimmed(value.get<std::string>()).empty())
    throw_error(
        "'{}' must be the name of a column, as \"column\" or \"column * 0.001\", or a constant, as "
        "\"= text\" or a number",
        field);
  const std::string text(trimmed(value.get<std::string>()));
  if (text.starts_with('=')) return {field, Json(trimmed(text.substr(1)))};
  const std::size_t star = text.rfind('*');
  if (star == std::string::npos) return {field, Mapping::Column{text, 1}};
  const std::optional<double> factor = number_in(text.substr(star + 1));
  if (!factor) throw_error("'{}': '{}' has no number after '*'; write \"column * 0.001\"", field, text);
  return {field, Mapping::Column{std::string(trimmed(text.substr(0, star))), *factor}};
}

// The member `name`, or a member of a nested object: "run.batch". Null if there is none.
const Json* find(const Json& row, const std::string& name) {
  if (!row.is_object()) return nullptr;
  if (const auto found = row.find(name); found != row.end()) return &*found;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const auto outer = row.find(name.substr(0, dot));
    if (outer == row.end()) continue;
    if (const Json* inner = find(*outer, name.substr(dot + 1))) return inner;
  }
  return nullptr;
}

const Json& value_of(const Json& row, const Mapping::Entry& entry, const Mapping& mapping) {
  if (const Json* constant = std::get_if<Json>(&entry.source)) return *constant;
  const std::string& column = std::get<Mapping::Column>(entry.source).name;
  if (const Json* value = find(row, column)) return *value;
  std::vector<std::string_view> names;
  std::vector<std::string> keys;
  for (const auto& [key, value] : row.items()) keys.push_back(key);
  names.assign(keys.begin(), keys.end());
  throw_error("there is no column '{}', which '{}' maps to '{}'{}", column, mapping.path, entry.field,
              hint(column, names));
}

double factor_of(const Mapping::Entry& entry) {
  const auto* column = std::get_if<Mapping::Column>(&entry.source);
  return column == nullptr ? 1 : column->factor;
}

double to_number(const Json& value, const std::string& field) {
  std::optional<double> number;
  if (value.is_number()) number = value.get<double>();
  if (value.is_string()) number = number_in(value.get<std::string>());
  if (!number) throw_error("'{}' needs a number, and the value is {}", field, dump_json(value));
  return *number;
}

std::vector<double> to_samples(const Json& value, const Mapping::Entry& entry) {
  std::vector<double> samples;
  const auto add = [&](const Json& each) { samples.push_back(to_number(each, entry.field) * factor_of(entry)); };
  if (value.is_array()) {
    for (const Json& each : value) add(each);
  } else if (value.is_string()) {
    const std::string text = value.get<std::string>();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(';', begin), text.size());
      add(text.substr(begin, end - begin));
      begin = end + 1;
    }
  } else {
    add(value);
  }
  return samples;
}

// As the reader of records expects it.
Json to_field(const Json& value, const Mapping::Entry& entry, FieldType type) {
  if (value.is_null() || (value.is_string() && value.get<std::string>().empty())) return nullptr;
  if (type == FieldType::text) return value.is_string() ? value : Json(dump_json(value));
  if (type == FieldType::boolean) return value.is_string() ? Json(value.get<std::string>() == "true") : value;
  const double number = to_number(value, entry.field) * factor_of(entry);
  if (type == FieldType::number) return number;
  const double whole = std::round(number);
  constexpr double kMost = 9e18;
  if (!(std::abs(number - whole) <= 1e-6 * std::max(1.0, std::abs(number))) || std::abs(whole) > kMost)
    throw_error("'{}' needs a whole number, and the value is {}", entry.field, number);
  return static_cast<std::int64_t>(whole);
}

// The fields of a row other than the samples, and its samples.
struct MappedRow {
  Json fields = Json::object();
  std::vector<double> samples;
};

MappedRow map_row(const Json& row, const Mapping& mapping) {
  MappedRow mapped;
  mapped.fields["schema"] = kRecordSchema;
  mapped.fields["engine"] = "";
  for (const Mapping::Entry& entry : mapping.entries) {
    const Json& value = value_of(row, entry, mapping);
    const FieldType type = fields_of_records().at(entry.field);
    if (type == FieldType::samples) {
      mapped.samples = to_samples(value, entry);
      continue;
    }
    Json field = to_field(value, entry, type);
    if (field.is_null()) continue;
    const FieldPlace place = place_of_field(entry.field);
    Json& parent = place.object.empty() ? mapped.fields : mapped.fields[place.object];
    parent[place.name] = std::move(field);
  }
  return mapped;
}

void set_samples(Record& record, const std::vector<double>& samples) {
  record.steps = static_cast<std::int64_t>(samples.size());
  if (samples.empty()) return;
  TrainingStepSection& step = *record.training_step;
  step.time_ms = describe(samples);
  if (!step.tokens_per_second && record.batch > 0 && record.context > 0)
    step.tokens_per_second = static_cast<double>(record.batch * record.context) / (step.time_ms.mean / 1e3);
}

}  // namespace

std::set<std::string> Mapping::fields() const {
  std::set<std::string> names;
  for (const Entry& entry : entries) names.insert(entry.field);
  return names;
}

Mapping read_mapping(const std::string& path) {
  const std::string text = read_file(path, kMostMappingBytes);
  try {
    const Json document = parse_json(text);
    if (!document.is_object()) throw Error("it is not a JSON object from fields to columns");
    Mapping mapping{path, {}};
    for (const auto& [field, value] : document.items()) mapping.entries.push_back(parse_entry(field, value));
    const std::set<std::string> fields = mapping.fields();
    if (!fields.contains(std::string(kSamples)) && !fields.contains(std::string(kMedian)))
      throw_error("it names no times; map '{}' (one time an iteration) or '{}'", kSamples, kMedian);
    return mapping;
  } catch (const Error& error) {
    throw_error("mapping '{}': {}", path, error.what());
  }
}

std::vector<Record> map_json(const std::vector<Json>& rows, const Mapping& mapping) {
  std::vector<Record> records;
  std::vector<std::vector<double>> samples;  // of each record
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    try {
      const MappedRow row = map_row(rows[i], mapping);
      const auto [place, is_new] = places.try_emplace(dump_json(row.fields), records.size());
      if (is_new) {
        records.push_back(record_from_json(place->first));
        samples.emplace_back();
      }
      std::vector<double>& all = samples[place->second];
      all.insert(all.end(), row.samples.begin(), row.samples.end());
    } catch (const Error& error) {
      throw_error("row {}: {}", i + 1, error.what());
    }
  }
  for (std::size_t i = 0; i < records.size(); ++i) set_samples(records[i], samples[i]);
  return records;
}

std::vector<Record> map_csv(std::string_view text, const Mapping& mapping) {
  return map_json(parse_csv_rows(text), mapping);
}

}  // namespace ridgepoint
