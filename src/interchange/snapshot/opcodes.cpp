#include "interchange/snapshot/opcodes.h"

#include <algorithm>
#include <array>

namespace ridgepoint::pickle {
namespace {

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

const RefusedOpcode* find(std::uint8_t opcode) {
  const auto* found = std::ranges::find(kRefused, opcode, &RefusedOpcode::code);
  return found == kRefused.end() ? nullptr : found;
}

}  // namespace

std::string_view refused_opcode_name(std::uint8_t opcode) {
  const RefusedOpcode* found = find(opcode);
  return found == nullptr ? "" : found->name;
}

bool is_executable(std::uint8_t opcode) {
  const RefusedOpcode* found = find(opcode);
  return found != nullptr && found->is_executable;
}

}  // namespace ridgepoint::pickle
