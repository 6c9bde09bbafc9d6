// Comparisons of long double, which strtod() and printf() of musl use. Those of the compiler's library in
// Emscripten 3.1.6 return 64 bits where pointers have 64, and their callers expect an int: such a call would end the
// program.
#include <bit>
#include <compare>

namespace {

using Bits = unsigned __int128;

constexpr Bits kSign = Bits{1} << 127;
constexpr Bits kInfinity = Bits{0x7fff} << 112;

bool is_nan(Bits bits) { return (bits & ~kSign) > kInfinity; }

// -1, 0 or 1; `unordered` if one of the two is not a number.
int compare(long double a, long double b, int unordered) {
  const Bits x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b);
  if (is_nan(x) || is_nan(y)) return unordered;
  if (x == y || ((x | y) & ~kSign) == 0) return 0;
  const bool is_less = (x & kSign) != (y & kSign) ? (x & kSign) != 0 : (x < y) != ((x & kSign) != 0);
  return is_less ? -1 : 1;
}

}  // namespace

extern "C" {
int __eqtf2(long double a, long double b) { return compare(a, b, 1); }
int __netf2(long double a, long double b) { return compare(a, b, 1); }
int __lttf2(long double a, long double b) { return compare(a, b, 1); }
int __letf2(long double a, long double b) { return compare(a, b, 1); }
int __gttf2(long double a, long double b) { return compare(a, b, -1); }
int __getf2(long double a, long double b) { return compare(a, b, -1); }
int __unordtf2(long double a, long double b) { return compare(a, b, 2) == 2 ? 1 : 0; }
}
