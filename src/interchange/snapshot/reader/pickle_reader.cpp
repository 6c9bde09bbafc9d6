#include "interchange/snapshot/reader/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/text/throw_error.h"
#include "interchange/snapshot/opcodes.h"

namespace ridgepoint {
namespace {

using pickle::Opcode;

// Opcodes that are refused: they import or call something, belong to an older protocol or do not occur in plain data.
struct RefusedOpcode {
  std::uint8_t code;
  std::string_view name;
  bool is_executable;
};

constexpr std::array<RefusedOpcode, 26> kRefused = {
    {{'c', "GLOBAL", true},        {'R', "REDUCE", true},       {'b', "BUILD", true},
     {'i', "INST", true},          {'o', "OBJ", true},          {'P', "PERSID", true},
     {'Q', "BINPERSID", true},     {0x81, "NEWOBJ", true},      {0x82, "EXT1", true},
     {0x83, "EXT2", true},         {0x84, "EXT4", true},        {0x92, "NEWOBJ_EX", true},
     {0x93, "STACK_GLOBAL", true}, {0x97, "NEXT_BUFFER", true}, {0x98, "READONLY_BUFFER", true},
     {'I', "INT", false},          {'L', "LONG", false},        {'F', "FLOAT", false},
     {'S', "STRING", false},       {'V', "UNICODE", false},     {'g', "GET", false},
     {'p', "PUT", false},          {'2', "DUP", false},         {0x8f, "EMPTY_SET", false},
     {0x90, "ADDITEMS", false},    {0x91, "FROZENSET", false}}};

// The longest opcode but those with texts and bytes: LONG4, four bytes of a length and nine of an integer.
constexpr std::ptrdiff_t kLongestOpcodeBytes = 14;

template <typename Integer>
Integer little_endian(const std::uint8_t* at) {
  static_assert(std::endian::native == std::endian::little);
  Integer value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Without the fraction. A NaN is no number.
SnapshotValue truncated_real(const std::uint8_t* at) {
  std::uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) bits = bits << 8 | at[i];
  const auto real = std::bit_cast<double>(bits);
  constexpr double kMost = 9.0e18;
  if (std::isnan(real)) return {SnapshotValue::Kind::other, 0, 0};
  return {SnapshotValue::Kind::real, 0, static_cast<std::int64_t>(std::clamp(real, -kMost, kMost))};
}

}  // namespace

SnapshotValue PickleReader::read() {
  const std::uint8_t* at = refill(bytes_.next());
  protocol_ = at[1];
  if (at[0] != static_cast<std::uint8_t>(Opcode::proto) || protocol_ < pickle::kLeastProtocol ||
      protocol_ > pickle::kMostProtocol) {
    refuse(fmt::format("its pickle protocol is {}; protocols 2 to 5 are read", protocol_));
  }
  at += 2;
  while (true) {
    if (bytes_.end() - at < kLongestOpcodeBytes) at = refill(at);
    opcode_at_ = at;
    const std::uint8_t opcode = *at++;
    if (opcode == static_cast<std::uint8_t>(Opcode::stop)) break;
    at = step(opcode, at);
  }
  bytes_.set_next(at);
  if (stack_.size() != 1 || !marks_.empty()) refuse(fmt::format("STOP leaves {} values, not one", stack_.size()));
  return stack_.front();
}

// Makes a whole opcode available where the file has one, and keeps the stack small.
const std::uint8_t* PickleReader::refill(const std::uint8_t* at) {
  if (at > bytes_.end()) refuse("the file ends in the middle of this opcode: it is truncated");
  bytes_.set_next(at);
  remember_offset();
  if (bytes_.request(kLongestOpcodeBytes) == 0) {
    opcode_offset_ = bytes_.offset();
    refuse("the file ends without STOP: it is truncated");
  }
  if (stack_.size() > kMaxStack / 2) flush_items();
  if (stack_.size() > kMaxStack) refuse(fmt::format("more than {} values wait for their container", kMaxStack));
  return bytes_.next();
}

// Executes one opcode whose operands begin at `at`; returns where the next one begins.
const std::uint8_t* PickleReader::step(std::uint8_t opcode, const std::uint8_t* at) {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::binget: recall(*at); return at + 1;
    case Opcode::long_binget: recall(little_endian<std::uint32_t>(at)); return at + 4;
    case Opcode::memoize: memoize(memo_.size()); return at;
    case Opcode::binput: memoize(*at); return at + 1;
    case Opcode::long_binput: memoize(little_endian<std::uint32_t>(at)); return at + 4;
    case Opcode::binint1: push_integer(*at); return at + 1;
    case Opcode::binint2: push_integer(little_endian<std::uint16_t>(at)); return at + 2;
    case Opcode::binint: push_integer(little_endian<std::int32_t>(at)); return at + 4;
    case Opcode::long1: return read_long(at + 1, *at);
    case Opcode::mark:
      marks_.push_back({stack_.size(), false});
      if (marks_.size() > kMaxStack) refuse(fmt::format("more than {} marks are open", kMaxStack));
      return at;
    case Opcode::empty_dict:
      flush_items();
      push(open_dict());
      return at;
    case Opcode::empty_list:
      flush_items();
      push(open_list());
      return at;
    case Opcode::setitems: set_items(pop_mark().begin); return at;
    case Opcode::appends: append_items(pop_mark().begin); return at;
    case Opcode::short_binunicode:
    case Opcode::short_binstring: return read_text(at + 1, *at);
    default: return step_rare(opcode, at);
  }
}

const std::uint8_t* PickleReader::step_rare(std::uint8_t opcode, const std::uint8_t* at) {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::frame: return at + 8;  // the length of a frame only helps to read ahead
    case Opcode::proto:
      if (*at > pickle::kMostProtocol) refuse(fmt::format("its pickle protocol is {}; protocols 2 to 5 are read", *at));
      return at + 1;
    case Opcode::none: push({Kind::none, 0, 0}); return at;
    case Opcode::newtrue:
    case Opcode::newfalse:
      push({Kind::boolean, 0, opcode == static_cast<std::uint8_t>(Opcode::newtrue) ? 1 : 0});
      return at;
    case Opcode::binfloat: push(truncated_real(at)); return at + 8;
    case Opcode::long4: return read_long(at + 4, little_endian<std::uint32_t>(at));
    case Opcode::binunicode:
    case Opcode::binstring: return read_text(at + 4, little_endian<std::uint32_t>(at));
    case Opcode::binunicode8: return read_text(at + 8, little_endian<std::uint64_t>(at));
    case Opcode::short_binbytes: return skip_bytes(at + 1, *at);
    case Opcode::binbytes: return skip_bytes(at + 4, little_endian<std::uint32_t>(at));
    case Opcode::binbytes8:
    case Opcode::bytearray8: return skip_bytes(at + 8, little_endian<std::uint64_t>(at));
    default: step_container(opcode); return at;
  }
}

// Opcodes without operands that take values from the stack.
void PickleReader::step_container(std::uint8_t opcode) {
  const auto begin_of_top = [&](std::size_t count) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back().begin;
    if (stack_.size() - floor < count) refuse("it needs values that are not there");
    return stack_.size() - count;
  };
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::empty_tuple: return close_tuple(stack_.size());
    case Opcode::tuple1: return close_tuple(begin_of_top(1));
    case Opcode::tuple2: return close_tuple(begin_of_top(2));
    case Opcode::tuple3: return close_tuple(begin_of_top(3));
    case Opcode::tuple: return close_tuple(pop_whole_mark());
    case Opcode::append: return append_items(begin_of_top(1));
    case Opcode::setitem: return set_items(begin_of_top(2));
    case Opcode::list: return build_list(pop_whole_mark());
    case Opcode::dict: return build_dict(pop_whole_mark());
    case Opcode::pop_mark: return discard_from(pop_whole_mark());
    case Opcode::pop:
      if (!marks_.empty() && marks_.back().begin == stack_.size()) return marks_.pop_back();
      return discard_from(begin_of_top(1));
    default: refuse_opcode(opcode);
  }
}

const std::uint8_t* PickleReader::read_text(const std::uint8_t* at, std::uint64_t size) {
  if (size > SnapshotCollector::kMaxTextBytes) {
    refuse(fmt::format("a string has {} bytes; at most {} are read", size, SnapshotCollector::kMaxTextBytes));
  }
  if (bytes_.end() - at < static_cast<std::ptrdiff_t>(size)) {
    remember_offset();
    if (at <= bytes_.end()) bytes_.set_next(at);
    if (at > bytes_.end() || bytes_.request(size) < size)
      refuse("the file ends in the middle of a string: it is truncated");
    at = bytes_.next();
  }
  push(collector_.text({reinterpret_cast<const char*>(at), static_cast<std::size_t>(size)}));
  return at + size;
}

const std::uint8_t* PickleReader::skip_bytes(const std::uint8_t* at, std::uint64_t size) {
  remember_offset();
  if (at <= bytes_.end()) bytes_.set_next(at);
  if (at > bytes_.end() || !bytes_.skip(size)) refuse("the file ends in the middle of bytes: it is truncated");
  push({Kind::other, 0, 0});
  return bytes_.next();
}

// An integer of `size` bytes, least significant first, in two's complement.
const std::uint8_t* PickleReader::read_long(const std::uint8_t* at, std::uint64_t size) {
  constexpr std::uint64_t kMostBytes = 9;  // an address of 64 bits has a ninth byte for its sign
  if (size > kMostBytes || (size == kMostBytes && at[8] != 0)) {
    refuse(fmt::format("an integer of {} bytes does not fit in 64 bits", size));
  }
  std::uint64_t number = 0;
  if (size > 0) {
    std::memcpy(&number, at, size < 8 ? size : 8);
    const bool is_negative = size < 8 && (at[size - 1] & 0x80) != 0;
    if (is_negative) number |= ~std::uint64_t{0} << (8 * size);
  }
  push_integer(static_cast<std::int64_t>(number));
  return at + size;
}

// Before the buffer moves on.
void PickleReader::remember_offset() {
  if (opcode_at_ != nullptr) opcode_offset_ = bytes_.offset_of(opcode_at_);
  opcode_at_ = nullptr;
}

void PickleReader::refuse(const std::string& problem) const {
  const std::uint64_t offset = opcode_at_ != nullptr ? bytes_.offset_of(opcode_at_) : opcode_offset_;
  throw_error("at byte {}: {}", offset, problem);
}

void PickleReader::refuse_opcode(std::uint8_t opcode) const {
  const auto* refused = std::ranges::find(kRefused, opcode, &RefusedOpcode::code);
  if (refused == kRefused.end())
    refuse(fmt::format("{:#04x} is no opcode of a pickle: the file is damaged or is no pickle", opcode));
  if (refused->is_executable) {
    refuse(
        fmt::format("the opcode {} imports or calls something. A snapshot is plain data, and nothing of a pickle is "
                    "run: the file is refused",
                    refused->name));
  }
  refuse(fmt::format("the opcode {} does not occur in snapshots; write the file again with protocol 4", refused->name));
}

}  // namespace ridgepoint
