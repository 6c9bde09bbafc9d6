#include "interchange/huggingface/config/json_file.h"

#include <fmt/format.h>

#include "core/files/file.h"
#include "ridgepoint/error.h"

namespace ridgepoint {

Json parse_json_object(std::string_view text, std::string_view what) {
  Json json = parse_json(text, what);
  if (!json.is_object())
    throw Error(fmt::format("{} holds no JSON object, but a value of the type {}", what, json.type_name()));
  return json;
}

Json read_json_object(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  return parse_json_object(read_file(path, limit_bytes), fmt::format("'{}'", path.string()));
}

}  // namespace ridgepoint
