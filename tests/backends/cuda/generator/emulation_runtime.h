// Emulates a GPU for a generated source that is compiled as C++: the intrinsics of source.cpp, indices, barriers and
// shuffles. Blocks run one after the other; the threads of a block are fibers that switch where CUDA threads would
// wait. Only generated code includes this file.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

struct uint2 {
  unsigned x, y;
};
#ifdef EMULATION_AT_ANY_ADDRESS
struct uint4 {
#else
struct alignas(16) uint4 {
#endif
  unsigned x, y, z, w;
};

inline void wait_for_previous_kernel() {}
inline void prefetch(const void*) {}
inline float nearly_reciprocal(float x) { return 1.0f / x; }
inline float nearly_power_of_two(float x) { return std::exp2(x); }

namespace emulation {

struct Index {
  unsigned x = 0;
};
inline Index thread_index;
inline Index block_index;

enum class State { ready, at_warp, at_block, done };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  State state = State::done;
};

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 64 * 1024;
inline std::vector<Fiber> fibers(1024);
inline ucontext_t scheduler;
inline void (*body)(void**) = nullptr;
inline void** body_arguments = nullptr;
alignas(16) inline char exchanged[1024][8];

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "emulated kernel: %s\n", what);
  std::abort();
}

inline void wait(State state) {
  Fiber& self = fibers[thread_index.x];
  self.state = state;
  swapcontext(&self.context, &scheduler);
}

inline void enter() {
  body(body_arguments);
  fibers[thread_index.x].state = State::done;
}

inline void resume(unsigned thread) {
  thread_index.x = thread;
  swapcontext(&scheduler, &fibers[thread].context);
}

inline void start(unsigned thread) {
  Fiber& fiber = fibers[thread];
  if (fiber.stack == nullptr) fiber.stack = std::make_unique<char[]>(kStackBytes);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = &scheduler;
  makecontext(&fiber.context, enter, 0);
  fiber.state = State::ready;
}

// Runs a warp's lanes until all of them wait at a block barrier or have ended.
inline void run_warp(unsigned first, unsigned end) {
  for (;;) {
    for (unsigned t = first; t < end; ++t) {
      if (fibers[t].state == State::ready) resume(t);
    }
    bool exchanging = false;
    for (unsigned t = first; t < end; ++t) exchanging = exchanging || fibers[t].state == State::at_warp;
    if (!exchanging) return;
    for (unsigned t = first; t < end; ++t) {
      if (fibers[t].state != State::at_warp) fail("lanes of a warp missed an exchange");
      fibers[t].state = State::ready;
    }
  }
}

inline void run_block(unsigned threads) {
  for (unsigned t = 0; t < threads; ++t) start(t);
  for (;;) {
    for (unsigned first = 0; first < threads; first += kWarp) run_warp(first, std::min(first + kWarp, threads));
    bool waiting = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (fibers[t].state != State::at_block) continue;
      waiting = true;
      fibers[t].state = State::ready;
    }
    if (!waiting) return;
  }
}

// `alone`: threads have no barriers or shuffles.
inline void run(void (*kernel)(void**), unsigned grid, unsigned block, void** arguments, bool alone) {
  body = kernel;
  body_arguments = arguments;
  for (block_index.x = 0; block_index.x < grid; ++block_index.x) {
    if (!alone) {
      run_block(block);
      continue;
    }
    for (thread_index.x = 0; thread_index.x < block; ++thread_index.x) kernel(arguments);
  }
}

template <typename... A, std::size_t... I>
void call(void (*kernel)(A*...), void** arguments, std::index_sequence<I...>) {
  kernel(static_cast<A*>(arguments[I])...);
}
template <typename... A>
void call(void (*kernel)(A*...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<A...>());
}

}  // namespace emulation

#define threadIdx emulation::thread_index
#define blockIdx emulation::block_index

inline void __syncthreads() { emulation::wait(emulation::State::at_block); }

template <typename T>
T __shfl_xor_sync(unsigned, T x, int distance) {
  static_assert(sizeof(T) <= 8);
  const unsigned own = threadIdx.x;
  std::memcpy(emulation::exchanged[own], &x, sizeof(T));
  emulation::wait(emulation::State::at_warp);
  std::memcpy(&x, emulation::exchanged[own ^ static_cast<unsigned>(distance)], sizeof(T));
  emulation::wait(emulation::State::at_warp);
  return x;
}

inline unsigned __reduce_max_sync(unsigned lanes, unsigned x) {
  for (int distance = 16; distance > 0; distance /= 2) x = std::max(x, __shfl_xor_sync(lanes, x, distance));
  return x;
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// The intrinsics of source.cpp.
struct bf16 {
  unsigned short bits;
};
struct fp16 {
  unsigned short bits;
};
struct boolean {
  unsigned char bits;
};

inline float widen(bf16 x) {
  const unsigned bits = static_cast<unsigned>(x.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
inline float widen(fp16 x) {
  const int exponent = (x.bits >> 10) & 31;
  const float fraction = static_cast<float>(x.bits & 1023);
  const float sign = (x.bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? std::nanf("") : sign * std::numeric_limits<float>::infinity();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024.0f, exponent - 25));
}
inline bf16 to_bf16(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (x != x) return {0x7fff};
  return {static_cast<unsigned short>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}
inline float rounded_to_bf16(float x) { return widen(to_bf16(x)); }
inline fp16 to_fp16(float x) {
  const unsigned short sign = std::signbit(x) ? 0x8000 : 0;
  if (x != x) return {0x7fff};
  const float magnitude = std::fabs(x);
  if (magnitude >= 65520.0f) return {static_cast<unsigned short>(sign | 0x7c00)};
  if (magnitude == 0.0f) return {sign};
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return {static_cast<unsigned short>(sign | ((static_cast<unsigned>(exponent + 14) << 10) + steps))};
}
inline float to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  const float toward_zero =
      std::fabs(static_cast<double>(nearest)) > std::fabs(x) ? std::nextafter(nearest, 0.0f) : nearest;
  unsigned bits;
  std::memcpy(&bits, &toward_zero, sizeof bits);
  bits |= 1;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
template <typename To, typename From>
To saturate(From x) {
  if (x != x) return 0;
  if (x >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  if (x <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(x);
}
inline int to_int(float x) { return saturate<int>(x); }
inline int to_int(double x) { return saturate<int>(x); }
inline long long to_int64(float x) { return saturate<long long>(x); }
inline long long to_int64(double x) { return saturate<long long>(x); }
inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
inline float minimum(float a, float b) { return a < b || a != a ? a : b; }
inline unsigned bits_of(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float number_of(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline float positive_infinity(float) { return std::numeric_limits<float>::infinity(); }
inline double positive_infinity(double) { return std::numeric_limits<double>::infinity(); }
inline float not_a_number(float) { return std::numeric_limits<float>::quiet_NaN(); }
inline double not_a_number(double) { return std::numeric_limits<double>::quiet_NaN(); }
