#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "core/units.h"
#include "views/study/parts.h"

namespace ridgepoint::views {
namespace {

enum class Kind : std::uint8_t { text, ms, bytes, share, count, number };

struct Field {
  std::string path;
  std::string heading;
  Kind kind = Kind::text;
  bool is_setting = false;  // left out where all rows have the same value
};

const std::vector<Field>& record_fields() {
  static const std::vector<Field> fields = {
      {"model.name", "model", Kind::text, true},
      {"attention", "attention", Kind::text, true},
      {"model.d_model", "d", Kind::number, true},
      {"mode", "mode", Kind::text, true},
      {"dtype", "type", Kind::text, true},
      {"context", "context", Kind::number, true},
      {"compile", "compile", Kind::text, true},
      {"checkpoint", "checkpoint", Kind::text, true},
      {"warmup", "warm-up", Kind::number, true},
      {"status", "status", Kind::text, true},
      {"model.parameters", "parameters", Kind::count, true},
      {"time_ms.mean", "mean ms", Kind::ms},
      {"time_ms.std", "std ms", Kind::ms},
      {"time_ms.median", "median ms", Kind::ms},
      {"time_ms.min", "min ms", Kind::ms},
      {"time_ms.max", "max ms", Kind::ms},
      {"time_ms.cv", "cv", Kind::share},
      {"phase_ms.forward", "forward ms", Kind::ms},
      {"phase_ms.loss", "loss ms", Kind::ms},
      {"phase_ms.recompute", "recompute ms", Kind::ms},
      {"phase_ms.backward", "backward ms", Kind::ms},
      {"phase_ms.optimizer", "optimizer ms", Kind::ms},
      {"forward_ms.median", "forward ms", Kind::ms},
      {"backward_ms.median", "backward ms", Kind::ms},
      {"tokens_per_second", "tokens/s", Kind::count},
      {"ceiling_share", "of ceiling", Kind::share},
      {"memory_bytes.before_backward", "before backward", Kind::bytes},
      {"memory_bytes.peak_allocated", "peak allocated", Kind::bytes},
      {"memory_bytes.peak_reserved", "peak reserved", Kind::bytes},
      {"peak_phase", "peak in"},
      {"timing.verdict", "timing"},
  };
  return fields;
}

const Json& at(const Json& row, std::string_view path) {
  static const Json nothing = nullptr;
  const Json* value = &row;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    if (!value->is_object()) return nothing;
    const auto found = value->find(std::string(path.substr(0, dot)));
    if (found == value->end()) return nothing;
    value = &*found;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return *value;
}

bool differs(const std::vector<Json>& rows, const std::string& path) {
  return std::ranges::any_of(rows, [&](const Json& row) { return at(row, path) != at(rows.front(), path); });
}

bool is_known(const std::vector<Json>& rows, const std::string& path) {
  return std::ranges::any_of(rows, [&](const Json& row) { return !at(row, path).is_null(); });
}

std::string text_of(double value, Kind kind) {
  switch (kind) {
    case Kind::ms:
      return format_ms(value);
    case Kind::bytes:
      return format_bytes(static_cast<std::uint64_t>(std::max(value, 0.0)));
    case Kind::share:
      return fmt::format("{:.1f} %", 100 * value);
    case Kind::count:
      return format_count(value);
    case Kind::text:
    case Kind::number:
      break;
  }
  return fmt::format("{:.6g}", value);
}

Cell cell_of(const Json& value, Kind kind, Format format) {
  if (value.is_null() || value.is_structured()) return {};
  if (value.is_string()) return text_cell(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>();
  if (is_for_people(format) && kind != Kind::text) return text_of(value.get<double>(), kind);
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return value.get<double>();
}

void add_flat(Json& flat, const std::string& prefix, const Json& value) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) add_flat(flat, prefix.empty() ? key : prefix + " " + key, member);
  } else if (!value.is_array()) {
    flat[prefix] = value;
  }
}

// The kernels of each mode, with the share of the mode's kernel time.
std::vector<Json> kernel_rows(const std::vector<Json>& rows) {
  std::vector<Json> kernels;
  for (const Json& row : rows) {
    for (const Json& kernel : at(row, "profile.kernels")) {
      Json entry = {{"mode", at(row, "mode")}};
      for (const char* key : {"name", "calls", "time_ms", "share_of_kernel_time", "flops", "bytes", "median_us"})
        entry[key] = at(kernel, key);
      kernels.push_back(std::move(entry));
    }
  }
  return kernels;
}

// `devices` has a list of rates.
Json device_row(const Json& row) {
  Json flat = row;
  for (const Json& rate : at(row, "matmul")) {
    flat[fmt::format("matmul {}", rate.value("dtype", ""))] =
        format_count(rate.value("flops_per_second", 0.0)) + "flop/s";
  }
  if (const Json& copy = at(row, "copy.bytes_per_second"); copy.is_number())
    flat["copy rate"] = format_count(copy.get<double>()) + "B/s";
  for (const char* key : {"matmul", "copy", "purpose", "instruction_sets"}) flat.erase(key);
  return flat;
}

Kind kind_of(const std::string& key, const Json& value) {
  if (value.is_string()) return Kind::text;
  if (key.ends_with("_bytes")) return Kind::bytes;
  if (key.ends_with("_ms")) return Kind::ms;
  if (key.starts_with("share")) return Kind::share;
  return Kind::number;
}

bool are_records(const std::vector<Json>& rows) { return rows.front().contains("schema"); }

}  // namespace

std::vector<Json> flat_rows(StudyPart part, const std::vector<Json>& rows) {
  if (part == StudyPart::profile) return kernel_rows(rows);
  std::vector<Json> flat;
  for (const Json& row : rows) {
    Json entry = Json::object();
    add_flat(entry, "", part == StudyPart::devices ? device_row(row) : row);
    flat.push_back(std::move(entry));
  }
  return flat;
}

Table study_table(StudyPart part, const std::vector<Json>& rows, Format format) {
  std::vector<Field> fields;
  const bool has_records = are_records(rows) && part != StudyPart::profile;
  const std::vector<Json> shown = has_records ? rows : flat_rows(part, rows);
  if (has_records) {
    for (const Field& field : record_fields()) {
      if (field.is_setting ? differs(rows, field.path) : is_known(rows, field.path)) fields.push_back(field);
    }
  } else {
    for (const Json& row : shown) {
      for (const auto& [key, value] : row.items()) {
        const bool is_new = std::ranges::find(fields, key, &Field::path) == fields.end();
        if (is_new && !value.is_null()) fields.push_back({key, key, kind_of(key, value)});
      }
    }
  }
  Table table;
  for (const Field& field : fields) {
    const bool is_text = field.kind == Kind::text || !is_for_people(format);
    table.columns.push_back({field.path, field.heading, "{}", is_text ? Align::by_content : Align::right});
  }
  for (const Json& row : shown) {
    Cells cells;
    // The keys of rows that are no records may contain dots.
    for (const Field& field : fields) {
      const auto own = row.find(field.path);
      cells.push_back(cell_of(own != row.end() ? *own : at(row, field.path), field.kind, format));
    }
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace ridgepoint::views
