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

// Runs the kernel's body in every thread of every block.
void run(const Launch& launch, const std::function<void()>& body);

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
// Waits until the lanes of `mask` have come to the operation with their operands. Then the last one calls compute(user)
// on the operands of the warp's lanes, kOperandBytes apart, and each gets its own back.
void exchange(unsigned mask, const void* operation, void* operand, std::size_t bytes,
              void (*compute)(char* operands, void* user), void* user);

// The same, with compute(operands) for operands[lane]. No other place of the program has the same `Compute`.
template <class Operand, class Compute>
Operand exchange(unsigned mask, Operand operand, Compute compute) {
  static_assert(sizeof(Operand) <= kOperandBytes);
  struct Operands {
    char* first;
    Operand& operator[](unsigned lane) const { return *reinterpret_cast<Operand*>(first + lane * kOperandBytes); }
  };
  static const char operation = 0;
  exchange(
      mask, &operation, &operand, sizeof(operand),
      [](char* operands, void* user) { (*static_cast<Compute*>(user))(Operands{operands}); }, &compute);
  return operand;
}

// c += a b of a warp (device/warp_mma.cuh), with bf16 or fp16 in a and b.
struct Multiplication {
  unsigned a[4], b[2];
  float c[4];
};
void multiply(Multiplication& own, bool is_bf16);

}  // namespace emulated
