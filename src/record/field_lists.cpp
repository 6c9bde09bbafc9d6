// The fields of records as other files have them: the page of reports and docs/record.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "core/text/json.h"
#include "record/columns.h"

namespace ridgepoint {
namespace {

// The kinds by their names in web/src/elements/format.ts.
std::string_view page_kind(Kind kind) {
  constexpr std::string_view kNames[] = {"text",  "count",  "count", "number",    "ms",    "bytes",
                                         "share", "amount", "rate",  "flop_rate", "error", "bytes"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view unit(Kind kind) {
  constexpr std::string_view kUnits[] = {"", "", "", "", "ms", "bytes", "share", "", "1/s", "1/s", "", "bytes"};
  return kUnits[static_cast<std::size_t>(kind)];
}

// "`--dtype` [fp32]: fp32, tf32, bf16"
std::string option_text(const Setting& setting) {
  const Option& option = setting.option;
  if (option.help.empty()) return "";
  std::string text = fmt::format("`--{}`", option.name());
  const std::string_view usual = option.initial.empty() ? option.without : option.initial;
  if (!usual.empty() && option.of_config.empty()) text += fmt::format(" [{}]", usual);
  if (!option.of_config.empty()) text += fmt::format(" [{}; of a config.json {}]", usual, option.of_config);
  // The models are many, and a command lists them.
  if (!option.names_values && !setting.accepted().empty())
    text += fmt::format(": {}", fmt::join(setting.accepted(), ", "));
  return text;
}

}  // namespace

std::string documented_fields(const std::function<std::string(const Setting&)>& commands_of) {
  std::string text =
      "| setting | unit | option, [without it] and its values | commands that take it | what it is |\n"
      "|---|---|---|---|---|\n"
      "| `schema` | | | | version of this list |\n";
  const auto cell = [](std::string_view words) {
    return words.empty() ? std::string(" ") : fmt::format(" {} ", words);
  };
  for (const Setting& setting : record_settings()) {
    if (setting.path.empty()) continue;
    text += fmt::format("| `{}` |{}|{}|{}|{}|\n", setting.path, cell(unit(setting.kind)), cell(option_text(setting)),
                        cell(setting.option.help.empty() ? "" : commands_of(setting)), cell(setting.about));
  }
  text += "\n| result | unit | `--columns` | what it is |\n|---|---|---|---|\n";
  for (const Measure& measure : record_measures()) {
    if (measure.about.empty()) continue;  // a column of a field that has its row
    const std::string field =
        measure.path.empty() ? "" : fmt::format("`{}{}`", measure.path, measure.is_statistics ? ".*" : "");
    const std::string column = measure.name.empty() ? "" : fmt::format("`{}`", measure.name);
    text += fmt::format("|{}|{}|{}|{}|\n", cell(field), cell(unit(measure.kind)), cell(column), cell(measure.about));
  }
  return text;
}

std::string page_fields() {
  Json settings = Json::array(), measures = Json::array();
  for (const Setting& setting : record_settings()) {
    if (setting.path.empty() || setting.heading.empty()) continue;
    Json field = {{"path", setting.path},
                  {"label", setting.label.empty() ? setting.heading : setting.label},
                  {"kind", page_kind(setting.kind)}};
    if (setting.phrase != "{}" && !setting.phrase.starts_with('(')) field["phrase"] = setting.phrase;
    if (!setting.follows.empty()) field["follows"] = setting.follows;
    if (setting.is_axis) field["axis"] = true;
    if (setting.is_of_some) field["of_some"] = true;
    for (const auto& [number, text] : setting.words) field["words"].push_back({number, text});
    settings.push_back(std::move(field));
  }
  for (const Measure& measure : record_measures()) {
    if (measure.path.empty() || measure.label.empty()) continue;
    measures.push_back({{"path", measure.path}, {"label", measure.label}, {"kind", page_kind(measure.kind)}});
  }
  std::string text = "{";
  for (const auto& [key, fields] : {std::pair("settings", &settings), std::pair("measures", &measures)}) {
    text += fmt::format("{}\n \"{}\": [\n", text.size() > 1 ? "," : "", key);
    for (std::size_t i = 0; i < fields->size(); ++i)
      text += fmt::format("  {}{}\n", dump_json((*fields)[i]), i + 1 < fields->size() ? "," : "");
    text += " ]";
  }
  return text + "\n}\n";
}

}  // namespace ridgepoint
