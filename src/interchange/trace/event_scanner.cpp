#include "interchange/trace/event_scanner.h"

#include <algorithm>
#include <array>
#include <string>

#include "interchange/trace/json_cursor.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

// A member of an event that is looked at; null for others.
std::string_view* part_of(EventText& event, std::string_view key) {
  switch (key.size()) {
    case 2: return key == "ph" ? &event.phase : key == "ts" ? &event.time : key == "id" ? &event.id : nullptr;
    case 3:
      return key == "cat"   ? &event.category
             : key == "pid" ? &event.process
             : key == "tid" ? &event.thread
             : key == "dur" ? &event.duration
                            : nullptr;
    case 4: return key == "name" ? &event.name : key == "args" ? &event.arguments : nullptr;
    default: return nullptr;
  }
}

Scan scan_event(JsonCursor& cursor, EventText& event) {
  event = {};
  Scan scan = cursor.expect('{');
  std::string_view key, value;
  while (scan == Scan::ok) {
    const char next = cursor.peek();
    if (next == '}') {
      cursor.set(cursor.at() + 1);
      return Scan::ok;
    }
    if (next == ',') cursor.set(cursor.at() + 1);
    scan = cursor.key(key);
    if (scan == Scan::ok) scan = cursor.value(value);
    if (std::string_view* part = part_of(event, key); part != nullptr) *part = value;
  }
  return scan;
}

bool begins_event(std::string_view key) {
  constexpr std::array<std::string_view, 7> kKeys = {"ph", "name", "cat", "ts", "pid", "tid", "args"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

class EventScanner {
 public:
  EventScanner(ByteStream& bytes, EventSink& sink) : bytes_(bytes), sink_(sink) {}

  bool document() {
    if (peek() == '[') return events();
    step();  // the opening bracket
    bool has_events = false;
    for (char found = peek(); found != '}' && found != 0; found = peek()) {
      if (found == ',') step();
      std::string_view key, value;
      Scan scan = repeat([&](JsonCursor& cursor) { return cursor.key(key); });
      const std::string name(key);  // before the buffer moves
      if (scan == Scan::ok && name == "traceEvents" && peek() == '[') {
        has_events = events();
        continue;
      }
      if (scan == Scan::ok) scan = repeat([&](JsonCursor& cursor) { return cursor.value(value); });
      if (scan == Scan::refused) sink_.damaged();
      if (scan == Scan::ended) sink_.cut_off();
      if (scan != Scan::ok) return has_events;
      sink_.member(name, value);
    }
    if (peek() == 0) sink_.cut_off();
    step();  // the closing bracket
    return has_events;
  }

 private:
  const char* next() const { return reinterpret_cast<const char*>(bytes_.next()); }
  const char* end() const { return reinterpret_cast<const char*>(bytes_.end()); }
  void set_next(const char* at) { bytes_.set_next(reinterpret_cast<const std::uint8_t*>(at)); }
  void step() { set_next(next() + (next() < end() ? 1 : 0)); }

  // Reads on, keeping what is left. False at the end, and where a value is longer than the largest buffer.
  bool read_on() {
    const auto available = static_cast<std::size_t>(end() - next());
    if (has_ended_ || available >= ByteStream::kMaxRequestBytes) return false;
    const std::size_t wanted = std::min(std::max<std::size_t>(2 * available, 1), ByteStream::kMaxRequestBytes);
    try {
      has_ended_ = bytes_.request(std::max(wanted, available)) <= available;
    } catch (const Error&) {  // damaged gzip data: what was read before it is in the buffer
      has_ended_ = static_cast<std::size_t>(end() - next()) <= available;
    }
    return !has_ended_;
  }

  // Tries again from the same place where the buffer ended within a value.
  template <typename Step>
  Scan repeat(Step step) {
    while (true) {
      JsonCursor cursor(next(), end());
      const Scan scan = step(cursor);
      const auto looked_at = static_cast<std::uint64_t>(cursor.at() - next());  // before the buffer moves
      if (scan == Scan::ok) set_next(cursor.at());
      if (scan == Scan::ended && read_on()) continue;
      if (scan != Scan::ok) looked_at_in_vain_ += looked_at;
      return scan;
    }
  }

  char peek() {
    char found = 0;
    repeat([&](JsonCursor& cursor) {
      found = cursor.peek();
      return found == 0 && cursor.has_ended() ? Scan::ended : Scan::ok;
    });
    return found;
  }

  bool events() {
    step();  // the opening bracket
    EventText event;
    while (true) {
      const char found = peek();
      if (found == ']') {
        step();
        return true;
      }
      Scan scan = found == 0 && has_ended_ ? Scan::ended : Scan::refused;
      if (found == ',') {
        step();
        continue;
      }
      if (found == '{') scan = repeat([&](JsonCursor& cursor) { return scan_event(cursor, event); });
      if (scan == Scan::ok) {
        sink_.event(event);
        continue;
      }
      // An event without end is damaged if others are behind it: a quotation mark may be missing in it.
      const bool goes_on = looked_at_in_vain_ <= kMostInVain && find_next_event();
      if (scan == Scan::refused || goes_on) sink_.damaged();
      if (goes_on) continue;
      sink_.cut_off();
      return true;
    }
  }

  // Behind damage: the next object whose first key is one of an event's. False where the file ends before.
  bool find_next_event() {
    step();
    const Scan result = repeat([](JsonCursor& cursor) {
      while (!cursor.has_ended()) {
        const char found = *cursor.at();
        if (found == '{') {
          JsonCursor trial = cursor;
          std::string_view key;
          const Scan scan = trial.expect('{') == Scan::ok ? trial.key(key) : Scan::refused;
          if (scan == Scan::ok && begins_event(key)) return Scan::ok;
          if (scan == Scan::ended) break;
        }
        cursor.set(cursor.at() + 1);
      }
      return Scan::ended;
    });
    if (result != Scan::ok) set_next(end());
    return !has_ended_ || result == Scan::ok;
  }

  ByteStream& bytes_;
  EventSink& sink_;
  bool has_ended_ = false;
  // Damage within damage is looked at again and again, up to this limit.
  static constexpr std::uint64_t kMostInVain = std::uint64_t{1} << 30U;
  std::uint64_t looked_at_in_vain_ = 0;
};

}  // namespace

bool scan_events(ByteStream& bytes, EventSink& sink) { return EventScanner(bytes, sink).document(); }

}  // namespace ridgepoint
