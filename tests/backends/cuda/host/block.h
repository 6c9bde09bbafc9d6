// A thread block of a CUDA kernel that is compiled as C++ (cuda.h): its threads are fibers, of which one runs at a time
// until it waits for others, and blocks run one after another. So a run is repeatable, and a kernel that would hang is
// an error. What a GPU leaves undefined is an error or a NaN here: waiting for threads that never come, lanes of a warp
// at different operations, an access beyond the launch's shared memory, elements that no thread has written, and copies
// for which no thread has waited.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

namespace emulated {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Launch {
  Index grid, block;
  unsigned shared_bytes = 0;
};

// The order of a block's warps: all go on together, or each goes on until the whole block must meet. Where a barrier is
// missing, they give other results.
enum class Order { in_step, one_after_another };

// Runs the kernel's body in every thread of every block.
void run(const Launch& launch, Order order, const std::function<void()>& body);

// Ends the process.
[[noreturn]] void fail(const std::string& what);

// Of the running thread.
unsigned lane();

// Waits for `threads` threads at barrier `id`; 0 threads are all of the block.
void meet(int id, int threads);

// The block's dynamic shared memory, at 0 of the 32-bit addresses.
char* shared();
std::uint32_t shared_address(const void* pointer);
char* at_shared_address(std::uint32_t address, unsigned bytes);

// An asynchronous copy of 16 bytes, or of zeros: until its thread waits for it, there are NaN.
void copy_in(std::uint32_t to, const void* from, bool zeros);
void end_copies();
void wait_for_copies(int pending);

constexpr std::size_t kOperandBytes = 64;
// Where the running thread's warp has this thread's operand; those of other lanes are kOperandBytes apart.
char* place_of_operand();
// Waits until the lanes of `mask` have come to the operation. The last one calls compute(first lane's place, user).
void meet_lanes(unsigned mask, const void* operation, void (*compute)(char* operands, void* user), void* user);

// The lanes of the mask come together with their operands. One of them calls compute(operands), for operands[lane], and
// each gets its own back. No other place of the program has the same `Compute`.
template <class Operand, class Compute>
Operand exchange(unsigned mask, const Operand& operand, Compute compute) {
  static_assert(sizeof(Operand) <= kOperandBytes);
  struct Operands {
    char* first;
    Operand& operator[](unsigned lane) const { return *reinterpret_cast<Operand*>(first + lane * kOperandBytes); }
  };
  static const char operation = 0;
  char* const place = place_of_operand();
  std::memcpy(place, &operand, sizeof(operand));
  meet_lanes(
      mask, &operation, [](char* operands, void* user) { (*static_cast<Compute*>(user))(Operands{operands}); },
      &compute);
  Operand found;
  std::memcpy(&found, place, sizeof(found));
  return found;
}

// c += a b of a warp (device/warp_mma.cuh), with bf16 or fp16 in a and b.
struct Multiplication {
  float c[4];
  unsigned a[4], b[2];
};
void multiply_tiles(char* operands, bool is_bf16);

}  // namespace emulated
