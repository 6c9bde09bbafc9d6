#include "run/machine/device_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/json.h"
#include "core/text/units.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

Cell as_cell(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return value.is_number() ? Cell(value.get<double>()) : Cell();
}

constexpr std::array<std::string_view, 5> kDatasheetTypes = {"fp32", "tf32", "bf16", "fp16", "fp8"};

Json to_json(const Datasheet& sheet) {
  Json json = {
      {"card", sheet.card}, {"memory_bytes", sheet.memory_bytes}, {"bytes_per_second", sheet.bytes_per_second}};
  for (const std::string_view dtype : kDatasheetTypes) {
    json["flops_per_second"][std::string(dtype)] = or_null(datasheet_flops_per_second(sheet, dtype));
  }
  return json;
}

void add_card(Json& json, const DeviceReport& report) {
  if (!report.facts.compute_capability) return;
  json["compute_capability"] = *report.facts.compute_capability;
  json["multiprocessors"] = or_null(report.facts.multiprocessors);
  json["l2_cache_bytes"] = or_null(report.facts.l2_cache_bytes);
  json["used_at_start_bytes"] = or_null(report.facts.used_at_start_bytes);
  json["datasheet"] = report.datasheet == nullptr ? Json(nullptr) : to_json(*report.datasheet);
}

Json to_json(const DeviceReport& report) {
  Json json = {{"kind", report.kind}, {"name", report.name}, {"purpose", report.purpose}};
  if (!report.problem.empty()) json["problem"] = report.problem;
  if (report.memory_bytes == 0) return json;
  json["total_memory_bytes"] = report.memory_bytes;
  if (report.capacity_bytes) json["capacity_bytes"] = *report.capacity_bytes;
  if (const auto& host = report.host) {
    json["sockets"] = host->sockets;
    json["cores"] = host->cores;
    json["hardware_threads"] = host->threads;
    json["threads"] = report.threads;
    json["instruction_sets"] = host->instruction_sets;
  }
  add_card(json, report);
  json["copy"] = nullptr;
  if (const auto& copy = report.ceilings.copy) {
    json["copy"] = {{"bytes_per_second", copy->bytes_per_second}, {"buffer_bytes", copy->buffer_bytes}};
  }
  json["matmul"] = Json::array();
  for (const MatmulCeiling& matmul : report.ceilings.matmul) {
    json["matmul"].push_back({{"dtype", ridgepoint::name(matmul.precision)},
                              {"flops_per_second", matmul.flops_per_second},
                              {"size", matmul.size}});
  }
  return json;
}

std::string describe(const Datasheet& sheet) {
  std::string text = fmt::format("{}: {}B/s", sheet.card, format_count(sheet.bytes_per_second));
  for (const std::string_view dtype : kDatasheetTypes) {
    if (const auto rate = datasheet_flops_per_second(sheet, dtype)) {
      text += fmt::format(", {} {}flop/s", dtype, format_count(*rate));
    }
  }
  return text;
}

// The share of the published rate; empty if none is published.
std::string share_of(double measured, std::optional<double> published) {
  return published ? fmt::format(", {:.0f} % of the datasheet's", 100 * measured / *published) : "";
}

std::optional<double> published_rate(const Datasheet* sheet, Precision precision) {
  return sheet == nullptr ? std::nullopt : datasheet_flops_per_second(*sheet, ridgepoint::name(precision));
}

// The lines of a device's table: label and value.
std::vector<std::pair<std::string, std::string>> lines_of(const DeviceReport& report) {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto line = [&](std::string key, std::string value) { lines.emplace_back(std::move(key), std::move(value)); };
  if (const auto& host = report.host) {
    line("cores", fmt::format("{} in {} socket{}, {} hardware threads, {} used", host->cores, host->sockets,
                              host->sockets == 1 ? "" : "s", host->threads, report.threads));
    line("instructions", fmt::format("{}", fmt::join(host->instruction_sets, " ")));
  }
  line("memory", format_bytes(report.memory_bytes));
  const Datasheet* sheet = report.datasheet;
  if (const DeviceFacts& facts = report.facts; facts.compute_capability) {
    std::string text = fmt::format("compute capability {}, {} multiprocessors", *facts.compute_capability,
                                   facts.multiprocessors.value_or(0));
    if (facts.l2_cache_bytes) {
      text += fmt::format(", L2 cache of {}, {} in use at the start",
                          format_bytes(static_cast<std::uint64_t>(*facts.l2_cache_bytes)),
                          format_bytes(static_cast<std::uint64_t>(facts.used_at_start_bytes.value_or(0))));
    }
    line("GPU", std::move(text));
    line("datasheet", sheet == nullptr ? "not known" : describe(*sheet));
  }
  if (const auto& copy = report.ceilings.copy) {
    std::optional<double> published;
    if (sheet != nullptr) published = sheet->bytes_per_second;
    line("copy", fmt::format("{}B/s read and written, buffers of {}{}", format_count(copy->bytes_per_second),
                             format_bytes(static_cast<std::uint64_t>(copy->buffer_bytes)),
                             share_of(copy->bytes_per_second, published)));
  }
  for (const MatmulCeiling& matmul : report.ceilings.matmul) {
    line(fmt::format("matmul {}", ridgepoint::name(matmul.precision)),
         fmt::format("{}flop/s, {} x {} x {}{}", format_count(matmul.flops_per_second), matmul.size, matmul.size,
                     matmul.size, share_of(matmul.flops_per_second, published_rate(sheet, matmul.precision))));
  }
  return lines;
}

// A device without figures has only a heading.
Table table_for_people(const DeviceReport& report) {
  const bool has_figures = report.problem.empty() && report.memory_bytes > 0;
  const std::string& words = report.problem.empty() ? report.purpose : report.problem;
  Table table;
  table.columns = {left(report.kind), left(has_figures ? report.name : words)};
  if (has_figures) {
    for (auto& [key, value] : lines_of(report)) table.add({key, value});
  }
  return table;
}

// The JSON object without nesting: keys have dots, instruction sets are one string, matmul rates are keyed by type.
Json flattened(const DeviceReport& report) {
  Json json = to_json(report);
  if (report.host) json["instruction_sets"] = fmt::format("{}", fmt::join(report.host->instruction_sets, " "));
  Json matmuls = Json::object();
  for (const MatmulCeiling& matmul : report.ceilings.matmul) {
    matmuls[std::string(ridgepoint::name(matmul.precision))] = {{"flops_per_second", matmul.flops_per_second},
                                                                {"size", matmul.size}};
  }
  json["matmul"] = std::move(matmuls);
  const Json pointers = json.flatten();
  Json flat = Json::object();
  for (const auto& [pointer, value] : pointers.items()) {
    if (value.is_null()) continue;
    std::string key = pointer.substr(1);
    std::ranges::replace(key, '/', '.');
    flat[key] = value;
  }
  return flat;
}

// One row for each device, one column for each key that any of them has.
Table flat_table(std::span<const DeviceReport> reports) {
  std::vector<Json> rows;
  std::vector<std::string> keys;
  for (const DeviceReport& report : reports) {
    for (const auto& [key, value] : rows.emplace_back(flattened(report)).items()) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  Table table;
  append_columns(table, keys);
  for (const Json& row : rows) {
    Cells cells;
    for (const std::string& key : keys) cells.push_back(row.contains(key) ? as_cell(row[key]) : Cell());
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace

Page devices_page(std::span<const DeviceReport> reports, Format format) {
  Page page;
  if (format == Format::csv) page.tables.push_back(flat_table(reports));
  for (const DeviceReport& report : reports) {
    if (is_for_people(format)) page.tables.push_back(table_for_people(report));
    if (format == Format::json || format == Format::jsonl) page.documents.push_back(dump_json(to_json(report)));
  }
  return page;
}

}  // namespace ridgepoint::tables
