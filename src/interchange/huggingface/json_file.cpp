#include "interchange/huggingface/json_file.h"

#include <fmt/format.h>

#include "core/files/file.h"
#include "ridgepoint/error.h"

namespace ridgepoint {

Json parse_json_object(std::string_view text, std::string_view what) {
  const auto check_depth = [&](int depth, Json::parse_event_t event, Json& /*parsed*/) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kMaxJsonDepth)
      throw Error(fmt::format("{} is nested deeper than {} levels", what, kMaxJsonDepth));
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, check_depth);
  } catch (const Json::parse_error& error) {
    // The library's message quotes the text, however long it is.
    throw Error(fmt::format("{} is not JSON: the error is at byte {}", what, error.byte));
  } catch (const Json::exception&) {
    throw Error(fmt::format("{} is not JSON: it has a number that no type holds", what));
  }
  if (!json.is_object())
    throw Error(fmt::format("{} holds no JSON object, but a value of the type {}", what, json.type_name()));
  return json;
}

Json read_json_object(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  return parse_json_object(read_file(path, limit_bytes), fmt::format("'{}'", path.string()));
}

}  // namespace ridgepoint
