// The configuration of a record: the settings by which rows of two files are matched.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ridgepoint/record.h"

namespace ridgepoint {

struct ConfigurationField {
  std::string name;
  std::string value;
  friend bool operator==(const ConfigurationField&, const ConfigurationField&) = default;
};

// Without seed, warm-up and steps, which say how it was measured, and without the device. The engine is without its
// version. `known` restricts it to these fields.
std::vector<ConfigurationField> configuration_of(const Record& record,
                                                 const std::optional<std::set<std::string>>& known, bool with_engine);

}  // namespace ridgepoint
