// The opcodes of Python's pickle format, protocols 0 to 5 (Lib/pickletools.py).
#pragma once

#include <cstdint>

namespace ridgepoint::pickle {

enum class Opcode : std::uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  binfloat = 'G',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binstring = 'T',
  short_binstring = 'U',
  binunicode = 'X',
  empty_list = ']',
  append = 'a',
  dict = 'd',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  list = 'l',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  empty_dict = '}',
  binbytes = 'B',
  short_binbytes = 'C',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96
};

inline constexpr int kLeastProtocol = 2;
inline constexpr int kMostProtocol = 5;

}  // namespace ridgepoint::pickle
