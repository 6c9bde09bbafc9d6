// JSON as this library writes it.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace ridgepoint {

using Json = nlohmann::ordered_json;

// On one line. Text that is not UTF-8 (a device's own name, say) is replaced rather than refused.
inline std::string dump_json(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// null for what is not finite.
inline Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace ridgepoint
