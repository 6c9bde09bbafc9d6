// Pickles put together opcode by opcode.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridgepoint::pickle_bytes {

inline std::string begin(int protocol = 4) { return {'\x80', static_cast<char>(protocol)}; }

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}
inline std::string text(std::string_view value) { return '\x8c' + little(value.size(), 1) + std::string(value); }
inline std::string integer(std::uint64_t value) { return "\x8a\x08" + little(value, 8); }

inline const std::string kEmptyDict = "}";
inline const std::string kEmptyList = "]";
inline const std::string kMark = "(";
inline const std::string kSetItems = "u";
inline const std::string kSetItem = "s";
inline const std::string kAppends = "e";
inline const std::string kAppend = "a";
inline const std::string kStop = ".";
inline const std::string kMemoize = "\x94";
inline std::string get(int reference) { return "h" + little(static_cast<std::uint64_t>(reference), 1); }

// {key: value, ...} of alternating opcodes.
inline std::string dict(const std::string& items) { return kEmptyDict + kMark + items + kSetItems; }
inline std::string list(const std::string& items) { return kEmptyList + kMark + items + kAppends; }

inline std::string event(std::string_view action, std::uint64_t address, std::uint64_t size) {
  return dict(text("action") + text(action) + text("addr") + integer(address) + text("size") + integer(size));
}
// A snapshot with these events of device 0 and no segments.
inline std::string snapshot(const std::string& events, const std::string& more = "") {
  return begin() + dict(text("segments") + kEmptyList + text("device_traces") + list(list(events)) + more) + kStop;
}

inline std::string repeated(std::string_view part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

}  // namespace ridgepoint::pickle_bytes
