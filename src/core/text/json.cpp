#include "core/text/json.h"

#include <fmt/format.h>

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text/text.h"

namespace ridgepoint {
namespace {

// As far as the text is JSON; the parser finds the first byte that is not.
bool is_too_deep(std::string_view text) {
  int levels = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      is_in_string = !is_in_string;
    } else if (!is_in_string && (c == '[' || c == '{')) {
      if (++levels > kMostJsonLevels) return true;
    } else if (!is_in_string && (c == ']' || c == '}')) {
      --levels;
    }
  }
  return false;
}

// Makes the value of a text. The library's own parser looks for each key among all before it, which for an object of
// 100,000 keys takes minutes.
class ValueBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(Json::number_integer_t value) override { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) override { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    auto& members = open_.back().value->get_ref<Json::object_t&>();
    const auto [place, is_new] = open_.back().places.try_emplace(name, members.size());
    if (is_new) members.emplace_back(std::move(name), nullptr);
    member_ = &(members.begin() + static_cast<std::ptrdiff_t>(place->second))->second;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception& error) override {
    error_byte = byte;
    is_out_of_range = dynamic_cast<const Json::out_of_range*>(&error) != nullptr;
    return false;
  }

  Json root;
  std::size_t error_byte = 0;
  bool is_out_of_range = false;  // a number

 private:
  struct Open {
    Json* value;
    std::unordered_map<std::string, std::size_t> places;  // of an object's keys
  };

  // What an element of the innermost list, a member of the innermost object or the root becomes.
  Json& next() {
    if (open_.empty()) return root;
    if (open_.back().value->is_array()) return open_.back().value->get_ref<Json::array_t&>().emplace_back();
    return *member_;
  }
  template <typename T>
  bool add(T&& value) {
    next() = std::forward<T>(value);
    return true;
  }
  bool open(Json empty) {
    Json& value = next();
    value = std::move(empty);
    open_.push_back({&value, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Open> open_;
  Json* member_ = nullptr;
};

}  // namespace

// JSON may have any character within strings alone, where \u stands for it as well.
std::string dump_json(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string escaped;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view character = rest.substr(0, character_length(rest));
    if (is_control(character)) {
      escaped += fmt::format("\\u{:04x}", code_point(character));
    } else {
      escaped += character;
    }
    rest.remove_prefix(character.size());
  }
  return escaped;
}

Json parse_json(std::string_view text, std::string_view what) {
  // Before the parser runs, because the destructor of what it has made so far would recurse.
  if (is_too_deep(text))
    throw JsonError(fmt::format("{} is nested deeper than {} levels", what, kMostJsonLevels), false);
  ValueBuilder builder;
  if (Json::sax_parse(text, &builder)) return std::move(builder.root);
  if (builder.is_out_of_range) throw JsonError(fmt::format("{} has a number that no type holds", what), false);
  // The library's message quotes the text, however long it is.
  throw JsonError(fmt::format("{} is not JSON at byte {}", what, builder.error_byte), builder.error_byte > text.size());
}

}  // namespace ridgepoint
