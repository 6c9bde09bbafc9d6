#include "inspect/compare/configuration.h"

#include <string_view>
#include <utility>

#include "record/columns.h"

namespace ridgepoint {
namespace {

// "torch 2.11.0 eager" is "torch eager".
std::string without_version(const std::string& engine) {
  const std::size_t first = engine.find(' ');
  if (first == std::string::npos) return engine;
  const std::size_t second = engine.find(' ', first + 1);
  const std::string rest = second == std::string::npos ? "" : engine.substr(second);
  return engine.substr(0, first) + rest;
}

}  // namespace

std::vector<ConfigurationField> configuration_of(const Record& record,
                                                 const std::optional<std::set<std::string>>& known, bool with_engine) {
  std::vector<ConfigurationField> fields;
  for (const Setting& setting : record_settings()) {
    if (!setting.is_matched || setting.path.empty()) continue;
    std::string path(setting.path);
    if (!known || known->contains(path)) fields.push_back({std::move(path), setting.value(record)});
  }
  if (with_engine) fields.push_back({"engine", without_version(record.engine)});
  return fields;
}

}  // namespace ridgepoint
