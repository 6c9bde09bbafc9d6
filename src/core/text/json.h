// JSON as this library writes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ridgepoint {

using Json = nlohmann::ordered_json;

// On one line. Text that is not UTF-8 (a device's own name, say) is replaced rather than refused.
std::string dump_json(const Json& json);

// null for what is not finite.
Json json_number(double value);

}  // namespace ridgepoint
