#include "interchange/snapshot/document_sink.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "core/text/json.h"
#include "core/text/text.h"
#include "interchange/snapshot/opcodes.h"

namespace ridgepoint {
namespace {

using pickle::Opcode;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
// Python's pickler uses the same.
constexpr std::size_t kItemsInBatch = 1000;
constexpr int kProtocol = 4;

constexpr std::uint8_t code(Opcode opcode) { return static_cast<std::uint8_t>(opcode); }

void write_full_buffer(OutputFile& file, std::string& buffer) {
  if (buffer.size() < kBufferBytes) return;
  file.write(buffer);
  buffer.clear();
}

}  // namespace

PickleSink::PickleSink(OutputFile& file) : file_(file) {
  opcode(code(Opcode::proto));
  opcode(kProtocol);
}

template <typename Integer>
void PickleSink::operand(Integer value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  buffer_.append(bytes, sizeof value);
}

void PickleSink::begin_dict() {
  write_full_buffer(file_, buffer_);
  opcode(code(Opcode::empty_dict));
  opcode(code(Opcode::mark));
}

void PickleSink::end_dict() { opcode(code(Opcode::setitems)); }

void PickleSink::begin_list() {
  opcode(code(Opcode::empty_list));
  items_.push_back(0);
}

void PickleSink::item() {
  if (items_.back() == kItemsInBatch) {
    opcode(code(Opcode::appends));
    items_.back() = 0;
  }
  if (items_.back()++ == 0) opcode(code(Opcode::mark));
}

void PickleSink::end_list() {
  if (items_.back() > 0) opcode(code(Opcode::appends));
  items_.pop_back();
}

void PickleSink::integer(std::uint64_t value) {
  if (value <= UINT8_MAX) {
    opcode(code(Opcode::binint1));
    operand(static_cast<std::uint8_t>(value));
  } else if (value <= UINT16_MAX) {
    opcode(code(Opcode::binint2));
    operand(static_cast<std::uint16_t>(value));
  } else if (value <= INT32_MAX) {
    opcode(code(Opcode::binint));
    operand(static_cast<std::uint32_t>(value));
  } else {
    // Two's complement: one more bit than the value has, for the sign.
    const auto bytes = static_cast<std::uint8_t>(std::bit_width(value) / 8 + 1);
    opcode(code(Opcode::long1));
    opcode(bytes);
    for (int i = 0; i < bytes; ++i) opcode(i < 8 ? static_cast<std::uint8_t>(value >> (8 * i)) : std::uint8_t{0});
  }
}

void PickleSink::boolean(bool value) { opcode(code(value ? Opcode::newtrue : Opcode::newfalse)); }

void PickleSink::text(std::string_view text) {
  const auto [found, is_new] = texts_.try_emplace(std::string(text), references_);
  if (!is_new) return recall(found->second);
  const std::string utf8 = valid_utf8(text);
  if (utf8.size() <= UINT8_MAX) {
    opcode(code(Opcode::short_binunicode));
    operand(static_cast<std::uint8_t>(utf8.size()));
  } else {
    opcode(code(Opcode::binunicode));
    operand(static_cast<std::uint32_t>(utf8.size()));
  }
  buffer_ += utf8;
  opcode(code(Opcode::memoize));
  ++references_;
}

void PickleSink::pair(std::uint64_t first, std::uint64_t second) {
  integer(first);
  integer(second);
  opcode(code(Opcode::tuple2));
}

bool PickleSink::begin_shared(std::uint64_t number) {
  const auto found = shared_.find(number);
  if (found == shared_.end()) return false;
  recall(found->second);
  return true;
}

void PickleSink::end_shared(std::uint64_t number) {
  opcode(code(Opcode::memoize));
  shared_.emplace(number, references_++);
}

void PickleSink::recall(std::uint32_t reference) {
  if (reference <= UINT8_MAX) {
    opcode(code(Opcode::binget));
    operand(static_cast<std::uint8_t>(reference));
  } else {
    opcode(code(Opcode::long_binget));
    operand(reference);
  }
}

void PickleSink::finish() {
  opcode(code(Opcode::stop));
  file_.write(buffer_);
}

void JsonSink::open(char bracket) {
  write_full_buffer(file_, buffer_);
  buffer_ += bracket;
  has_items_.push_back(false);
}

void JsonSink::close(char bracket) {
  buffer_ += bracket;
  has_items_.pop_back();
}

void JsonSink::separate() {
  if (has_items_.back()) buffer_ += ',';
  has_items_.back() = true;
}

void JsonSink::key(std::string_view name) {
  separate();
  text(name);
  buffer_ += ':';
}

void JsonSink::integer(std::uint64_t value) { buffer_ += fmt::format("{}", value); }
void JsonSink::text(std::string_view text) { buffer_ += dump_json(Json(text)); }
void JsonSink::pair(std::uint64_t first, std::uint64_t second) { buffer_ += fmt::format("[{},{}]", first, second); }

void JsonSink::finish() {
  buffer_ += '\n';
  file_.write(buffer_);
}

}  // namespace ridgepoint
