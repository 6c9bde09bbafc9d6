#include "backends/cuda/generator/source.h"

#include <algorithm>

#include "backends/cuda/generator/types.h"
#include "backends/cuda/generator/variants.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kRegionAlignmentBytes = 256;
constexpr std::uint64_t kMaxGrid = (std::uint64_t{1} << 31) - 1;

// Whether the program's results have no elements.
bool is_empty(const RowProgram& program) {
  const RowSpace& space = program.space;
  return std::all_of(program.outputs.begin(), program.outputs.end(), [&](const RowOutput& output) {
    std::int64_t count = space.group_count();
    if (!is_accumulating(output)) count *= space.rows_per_group();
    if (output.store == RowStore::element || output.store == RowStore::accumulate_columns) count *= space.columns;
    return count == 0;
  });
}

}  // namespace

std::string_view generated_intrinsics() {
  return R"cuda(
struct bf16 { unsigned short bits; };
struct fp16 { unsigned short bits; };
struct boolean { unsigned char bits; };

// The next kernel may start its blocks once all of this one have started; nothing touches memory before the previous
// kernel has ended.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline float widen(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
__device__ inline float widen(fp16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
__device__ inline bf16 to_bf16(float x) {
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
__device__ inline fp16 to_fp16(float x) {
  fp16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
// Rounds to odd, which makes a second rounding to fewer bits correct.
__device__ inline float to_odd(double x) {
  const float toward_zero = __double2float_rz(x);
  const bool exact = static_cast<double>(toward_zero) == x || x != x;
  return exact ? toward_zero : __uint_as_float(__float_as_uint(toward_zero) | 1);
}
__device__ inline int to_int(float x) { return __float2int_rz(x); }
__device__ inline int to_int(double x) { return x != x ? 0 : __double2int_rz(x); }
__device__ inline long long to_int64(float x) { return x != x ? 0 : __float2ll_rz(x); }
__device__ inline long long to_int64(double x) { return x != x ? 0 : __double2ll_rz(x); }

// The number rounded to bf16, as fp32: the upper half of a pair.
__device__ inline float rounded_to_bf16(float x) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x), "f"(0.0f));
  return __uint_as_float(pair);
}

// 2^x with a relative error of 2^-22.
__device__ inline float nearly_power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// The reciprocal to within a unit in the last place.
__device__ inline float nearly_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Brings what lies at the address to the L2 cache.
__device__ inline void prefetch(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// NaN if either operand is NaN.
__device__ inline float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ inline float minimum(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ inline unsigned bits_of(float x) { return __float_as_uint(x); }
__device__ inline float number_of(unsigned bits) { return __uint_as_float(bits); }
__device__ inline float positive_infinity(float) { return __int_as_float(0x7f800000); }
__device__ inline double positive_infinity(double) { return __longlong_as_double(0x7ff0000000000000LL); }
__device__ inline float not_a_number(float) { return __int_as_float(0x7fffffff); }
__device__ inline double not_a_number(double) { return __longlong_as_double(0x7fffffffffffffffLL); }
)cuda";
}

std::string_view generated_prelude() {
  return R"cuda(
__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline long long widen(long long x) { return x; }
__device__ inline int widen(int x) { return x; }
__device__ inline bool widen(boolean x) { return x.bits != 0; }

// As src/core/types/halves.h: the halves of an fp32 number, the low one as a number that has no other bits.
struct low_half { unsigned short bits; };
__device__ inline float widen(low_half x) { return number_of(x.bits); }
__device__ inline float round_away(float x) {
  const unsigned bits = bits_of(x);
  return number_of((x != x ? bits | 0x400000 : bits + 0x8000) & 0xffff0000);
}
__device__ inline float join_halves(float rounded, float low) {
  const unsigned carry = rounded != rounded ? 0 : (bits_of(low) & 0x8000) << 1;
  return number_of((bits_of(rounded) - carry) | bits_of(low));
}

// Bits that a double cannot represent are rounded to odd too.
__device__ inline float to_odd(long long x) {
  const bool is_double = -(1LL << 53) <= x && x <= 1LL << 53;
  return to_odd(static_cast<double>(is_double ? x : (x & ~0x7FFLL) | ((x & 0x7FF) != 0 ? 0x800 : 0)));
}

// Conversion to memory types, as in src/core/integers.h: floats to integers towards zero and saturating, integers to
// shorter ones by their low bits, integers to floats with one rounding.
template <typename T> struct Narrow {
  template <typename S> __device__ static T of(S x) { return static_cast<T>(x); }
};
template <> struct Narrow<bf16> {
  __device__ static bf16 of(float x) { return to_bf16(x); }
  __device__ static bf16 of(long long x) { return to_bf16(to_odd(x)); }
  template <typename S> __device__ static bf16 of(S x) { return to_bf16(to_odd(static_cast<double>(x))); }
};
template <typename S> __device__ inline float rounded_to_bf16(S x) { return widen(Narrow<bf16>::of(x)); }
template <> struct Narrow<fp16> {
  __device__ static fp16 of(float x) { return to_fp16(x); }
  __device__ static fp16 of(long long x) { return to_fp16(to_odd(x)); }
  template <typename S> __device__ static fp16 of(S x) { return to_fp16(to_odd(static_cast<double>(x))); }
};
template <> struct Narrow<int> {
  __device__ static int of(float x) { return to_int(x); }
  __device__ static int of(double x) { return to_int(x); }
  template <typename S> __device__ static int of(S x) { return static_cast<int>(x); }
};
template <> struct Narrow<long long> {
  __device__ static long long of(float x) { return to_int64(x); }
  __device__ static long long of(double x) { return to_int64(x); }
  template <typename S> __device__ static long long of(S x) { return static_cast<long long>(x); }
};
template <> struct Narrow<low_half> {
  __device__ static low_half of(float x) { return low_half{static_cast<unsigned short>(bits_of(x))}; }
};
template <> struct Narrow<boolean> {
  template <typename S> __device__ static boolean of(S x) { return boolean{static_cast<unsigned char>(x != S(0))}; }
};

template <typename T> __device__ inline T maximum(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> __device__ inline T minimum(T a, T b) { return a < b || a != a ? a : b; }
__device__ inline float reciprocal_root(float x) { return rsqrtf(x); }
__device__ inline double reciprocal_root(double x) { return 1.0 / sqrt(x); }
// Exponentiates a number that is not positive, so that nothing overflows.
// The quotient is that of `/`, which takes the same steps, but also a branch that keeps the elements of a thread apart:
// the divisor is between 1 and 2, and 1 where the dividend is so small that a remainder would be rounded.
__device__ inline float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  const float dividend = x >= 0.0f ? 1.0f : e;
  const float divisor = 1.0f + e;
  float reciprocal = nearly_reciprocal(divisor);
  reciprocal = fmaf(fmaf(-divisor, reciprocal, 1.0f), reciprocal, reciprocal);
  float quotient = dividend * reciprocal;
  quotient = fmaf(fmaf(-divisor, quotient, dividend), reciprocal, quotient);
  quotient = fmaf(fmaf(-divisor, quotient, dividend), reciprocal, quotient);
  return dividend < 9.3132257e-10f ? dividend : quotient;
}
__device__ inline double sigmoid(double x) {
  const double e = exp(-fabs(x));
  return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}
// Of a number that has 16 bits in memory. The relative error, at most 2^-17 and 2^-21 where |x| < 8, is far below that of
// the number; where e^-x overflows, the result is 0.
__device__ inline float sigmoid_of_short(float x) {
  return nearly_reciprocal(1.0f + nearly_power_of_two(-1.44269504f * x));
}

template <typename T> struct Lowest { __device__ static T value() { return -positive_infinity(T(0)); } };
template <> struct Lowest<int> { __device__ static int value() { return -2147483647 - 1; } };
template <> struct Lowest<long long> { __device__ static long long value() { return -9223372036854775807LL - 1; } };
template <> struct Lowest<bool> { __device__ static bool value() { return false; } };

struct Sum {
  template <typename T> __device__ static T identity() { return T(0); }
  template <typename T> __device__ static T of(T a, T b) { return static_cast<T>(a + b); }
};
struct Max {
  template <typename T> __device__ static T identity() { return Lowest<T>::value(); }
  template <typename T> __device__ static T of(T a, T b) { return maximum(a, b); }
};
// Of fp32 numbers that are not negative: their bits have the same order, and those of NaN are the largest.
struct LargestMagnitude {
  template <typename T> __device__ static T identity() { return T(0); }
  template <typename T> __device__ static T of(T a, T b) { return maximum(a, b); }
};

template <typename A, typename B> constexpr bool same_type = false;
template <typename A> constexpr bool same_type<A, A> = true;

// Reduces over groups of `lanes` neighbouring lanes; all lanes get bit for bit the same result.
template <typename Reduction, int lanes, typename T> __device__ inline T across_lanes(T x) {
  if constexpr (lanes == 32 && same_type<Reduction, LargestMagnitude>)
    return number_of(__reduce_max_sync(0xffffffffu, bits_of(x)));
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    x = Reduction::of(x, static_cast<T>(__shfl_xor_sync(0xffffffffu, x, distance)));
  return x;
}

template <int bytes> struct WordOf;
template <> struct WordOf<1> { using Type = unsigned char; };
template <> struct WordOf<2> { using Type = unsigned short; };
template <> struct WordOf<4> { using Type = unsigned; };
template <> struct WordOf<8> { using Type = uint2; };
template <> struct WordOf<16> { using Type = uint4; };

// Contiguous elements in their memory type, moved up to 16 bytes at a time.
template <typename T, int count> union Packet {
  static constexpr int kWordBytes = sizeof(T) * count < 16 ? sizeof(T) * count : 16;
  static constexpr int kWords = sizeof(T) * count / kWordBytes;
  using Word = typename WordOf<kWordBytes>::Type;
  T items[count];
  Word words[kWords];
  unsigned fours[sizeof(T) * count < 4 ? 1 : sizeof(T) * count / 4];  // of bytes
};
// Element k, widened. The upper element of a pair takes one instruction.
template <typename T, int count> __device__ inline auto element(const Packet<T, count>& packet, int k) {
  if constexpr (same_type<T, bf16> && count % 2 == 0)
    return number_of(k % 2 == 0 ? packet.fours[k / 2] << 16 : packet.fours[k / 2] & 0xffff0000u);
  else
    return widen(packet.items[k]);
}
template <int count, typename T> __device__ inline Packet<T, count> load(const T* from) {
  using Word = typename Packet<T, count>::Word;
  Packet<T, count> packet;
#pragma unroll
  for (int i = 0; i < Packet<T, count>::kWords; ++i) packet.words[i] = reinterpret_cast<const Word*>(from)[i];
  return packet;
}
template <int count, typename T, typename Index>
__device__ inline Packet<T, count> gather(const T* from, Index stride) {
  Packet<T, count> packet;
#pragma unroll
  for (int i = 0; i < count; ++i) packet.items[i] = from[i * stride];
  return packet;
}
template <typename T, int count> __device__ inline void store(T* to, const Packet<T, count>& packet) {
  using Word = typename Packet<T, count>::Word;
#pragma unroll
  for (int i = 0; i < Packet<T, count>::kWords; ++i) reinterpret_cast<Word*>(to)[i] = packet.words[i];
}
// The first elements of a packet, at the end of a tensor. Memory behind them is not accessed.
template <int count, int valid, typename T> __device__ inline Packet<T, count> load_first(const T* from) {
  Packet<T, count> packet;
#pragma unroll
  for (int i = 0; i < count; ++i) packet.items[i] = i < valid ? from[i] : T();
  return packet;
}
template <int valid, typename T, int count> __device__ inline void store_first(T* to, const Packet<T, count>& packet) {
#pragma unroll
  for (int i = 0; i < valid; ++i) to[i] = packet.items[i];
}
template <int count, int valid, typename T, typename Index>
__device__ inline Packet<T, count> gather_first(const T* from, Index stride) {
  Packet<T, count> packet;
#pragma unroll
  for (int i = 0; i < count; ++i) packet.items[i] = i < valid ? from[i * stride] : T();
  return packet;
}
template <typename T, int count, typename Index>
__device__ inline void scatter(T* to, Index stride, const Packet<T, count>& packet) {
#pragma unroll
  for (int i = 0; i < count; ++i) to[i * stride] = packet.items[i];
}
template <int valid, typename T, int count, typename Index>
__device__ inline void scatter_first(T* to, Index stride, const Packet<T, count>& packet) {
#pragma unroll
  for (int i = 0; i < valid; ++i) to[i * stride] = packet.items[i];
}
)cuda";
}

bool is_accumulating(const RowOutput& output) {
  return output.store == RowStore::accumulate_columns || output.store == RowStore::accumulate_rows;
}

bool stores_rows(const RowProgram& program) {
  return std::ranges::any_of(program.outputs, [](const RowOutput& output) { return output.store == RowStore::row; });
}

int round_up_to_power(std::int64_t count) {
  int power = 1;
  while (power < count) power *= 2;
  return power;
}

int Generation::reserve(std::int64_t elements, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_bytes(dtype);
  regions_.push_back({source_.workspace_bytes, dtype});
  source_.workspace_bytes += round_up(bytes, kRegionAlignmentBytes);
  return static_cast<int>(regions_.size()) - 1;
}

// A number makes the name unique: a node with several sums may need the same variant for each.
std::string Generation::unused_entry(std::string_view variant) const {
  const std::string first = fmt::format("{}_{}", name_, variant);
  const auto is_used = [&](const std::string& entry) {
    return std::ranges::any_of(source_.launches, [&](const GeneratedLaunch& l) { return l.entry == entry; });
  };
  std::string entry = first;
  for (int number = 2; is_used(entry); ++number) entry = fmt::format("{}_{}", first, number);
  return entry;
}

void Generation::add_kernel(const KernelHeader& header, const BodyPrinter& body, const Code& code,
                            const std::vector<int>& written) {
  if (header.grid > kMaxGrid)
    throw_error(ErrorKind::unsupported, "a kernel for '{}' would need {} thread blocks, but a launch has at most {}",
                name_, header.grid, kMaxGrid);
  GeneratedLaunch launch;
  launch.entry = unused_entry(header.variant);
  launch.grid = static_cast<unsigned>(header.grid);
  launch.block = static_cast<unsigned>(header.block);
  launch.parameters = body.parameters();
  std::string parameters = body.parameter_list();
  for (GeneratedParameter& parameter : launch.parameters) {
    if (parameter.kind != GeneratedParameter::Kind::workspace) continue;
    parameter.offset_bytes = regions_[static_cast<std::size_t>(parameter.index)].offset_bytes;
  }
  for (const int number : written) {
    const Region& region = regions_[static_cast<std::size_t>(number)];
    launch.parameters.push_back({GeneratedParameter::Kind::workspace, number, region.offset_bytes, 1});
    parameters += fmt::format("{}{}* part{}", parameters.empty() ? "" : ", ", memory_type(region.dtype), number);
  }
  std::string bounds = fmt::format("{}", header.block);
  if (header.blocks_per_multiprocessor > 0) bounds += fmt::format(", {}", header.blocks_per_multiprocessor);
  source_.text += fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n  wait_for_previous_kernel();\n{}}}\n", bounds,
      launch.entry, parameters, code.text());
  source_.launches.push_back(std::move(launch));
}

GeneratedSource Generation::finish() {
  if (!source_.launches.empty()) {
    const auto names = [&](DType dtype) { return source_.text.find(memory_type(dtype)) != std::string::npos; };
    const bool has_float8 = names(DType::e4m3) || names(DType::e5m2);
    source_.text = fmt::format("{}{}{}{}{}", generated_intrinsics(), generated_prelude(),
                               names(DType::dynamic8) ? generated_codes() : "", has_float8 ? generated_float8() : "",
                               source_.text);
  }
  return std::move(source_);
}

void print_program(Generation& generation, const RowProgram& program) {
  const bool reductions = std::ranges::any_of(
      program.instructions, [](const RowInstruction& instruction) { return instruction.kind == RowKind::reduce; });
  const bool accumulates = std::any_of(program.outputs.begin(), program.outputs.end(), is_accumulating);
  if (!reductions && !accumulates)
    return wants_tiles(program) ? print_tiled(generation, program) : print_elementwise(generation, program);
  const bool accumulates_rows =
      std::any_of(program.outputs.begin(), program.outputs.end(),
                  [](const RowOutput& output) { return output.store == RowStore::accumulate_rows; });
  if (!reductions && !accumulates_rows) return print_columns(generation, program);
  if (wants_split_rows(generation, program)) return print_split_rows(generation, program);
  print_rows(generation, program);
}

GeneratedSource generate_source(const RowProgram& program, std::string_view name, const GeneratorTarget& target) {
  Generation generation(name, target);
  if (!is_empty(program)) print_program(generation, program);
  return generation.finish();
}

}  // namespace ridgepoint::cuda
