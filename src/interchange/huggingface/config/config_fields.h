// The fields of a config.json with their types, and which of them were read. The readers of the families share it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint {

inline constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;  // an index of a million tensors

// JSON files may be malicious: their size is limited before anything is made of them.
// The object in `text`. Throws Error that begins with `what` for text that parse_json() refuses or that is no object.
Json parse_json_object(std::string_view text, std::string_view what);

// The object in a file. Throws Error also for a file that cannot be read or is longer than `limit_bytes`.
Json read_json_object(const std::filesystem::path& path, std::uint64_t limit_bytes);

class ConfigFields {
 public:
  // The largest size that is read; products of sizes are checked where they are made.
  static constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;

  // `object` must be a JSON object. `prefix` stands before the names of its fields in messages: "rope_scaling.".
  explicit ConfigFields(Json object, std::string prefix = "");

  // Each marks the field as read and returns `absent` where it is not there or, unless said otherwise, null. Throws
  // Error with the name and the value of a field of another type or out of range.
  // At least 1, and never null: a default in its place would be another model.
  std::int64_t size(std::string_view key, std::int64_t absent, std::int64_t most = kMaxSize);
  // Empty for null.
  std::optional<std::int64_t> optional_size(std::string_view key, std::optional<std::int64_t> absent);
  double positive(std::string_view key, double absent);
  double not_negative(std::string_view key, double absent);
  bool flag(std::string_view key, bool absent);
  std::string text(std::string_view key, std::string_view absent);

  // Whether the field is there and not null. It marks nothing.
  bool has(std::string_view key) const;
  bool contains(std::string_view key) const { return object_.contains(key); }  // null included
  // The value of a field that is there and not null; otherwise null. Marks the field as read.
  const Json* find(std::string_view key);
  // A field that is an object; empty where it is not there or null.
  std::optional<ConfigFields> object(std::string_view key);
  // Marks a field as read that changes nothing.
  void skip(std::string_view key) { read_.emplace(key); }

  // Throws Error unless the field is absent, null, false, 0, an empty list or an empty object. `why` ends the message.
  void refuse(std::string_view key, std::string_view why);
  // Throws Error about the whole: "config.json: ...".
  [[noreturn]] void fail(std::string_view key, std::string_view problem) const;
  template <typename... Args>
  requires(sizeof...(Args) > 0)
      [[noreturn]] void fail(std::string_view key, fmt::format_string<Args...> problem, Args&&... args) const {
    fail(key, fmt::format(problem, std::forward<Args>(args)...));
  }

  const std::set<std::string, std::less<>>& read() const { return read_; }
  // The names of fields that nothing has read, in the order of the file.
  std::vector<std::string> unread() const;

  // Sentences for the user: what is off, what is ignored.
  void note(std::string sentence);
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  double number(std::string_view key, double absent, double least, bool may_be_least, std::string_view range);

  Json object_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> notes_;
};

}  // namespace ridgepoint
