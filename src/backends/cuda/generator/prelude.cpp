#include "backends/cuda/generator/prelude.h"

namespace ridgepoint::cuda {

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
template <> struct Narrow<boolean> {
  template <typename S> __device__ static boolean of(S x) { return boolean{static_cast<unsigned char>(x != S(0))}; }
};

template <typename T> __device__ inline T maximum(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> __device__ inline T minimum(T a, T b) { return a < b || a != a ? a : b; }
__device__ inline float reciprocal_root(float x) { return rsqrtf(x); }
__device__ inline double reciprocal_root(double x) { return 1.0 / sqrt(x); }
// Exponentiates a number that is not positive, so that nothing overflows.
__device__ inline float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}
__device__ inline double sigmoid(double x) {
  const double e = exp(-fabs(x));
  return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
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

// Reduces over groups of `lanes` neighbouring lanes; all lanes get bit for bit the same result.
template <typename Reduction, int lanes, typename T> __device__ inline T across_lanes(T x) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    x = Reduction::of(x, static_cast<T>(__shfl_xor_sync(0xffffffffu, x, distance)));
  }
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
};
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

}  // namespace ridgepoint::cuda
