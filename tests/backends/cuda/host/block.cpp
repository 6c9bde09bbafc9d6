#include "block.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "cuda.h"

emulated::Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr std::size_t kMostSharedBytes = std::size_t{256} << 10;
constexpr std::size_t kPageBytes = 4096;
constexpr int kNotANumber = 0xff;  // the bytes of a NaN of any type

struct Copy {
  char* to;
  const void* from;
  bool zeros;
};

struct Thread {
  jmp_buf state;
  bool has_begun = false;
  Index index;
  std::vector<Copy> copies;
  std::vector<std::size_t> batches;  // the number of copies of each
};

struct Warp {
  unsigned mask = 0, arrived = 0;
  const void* operation = nullptr;
  alignas(16) char operands[kLanes * kOperandBytes];
};

struct Barrier {
  int expected = 0;
  std::vector<unsigned> waiting;
};

char* reserve(std::size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) fail("there is no memory");
  return static_cast<char*>(pages);
}

// Of threads; each is in it once.
class Queue {
 public:
  void set_order(Order order) { order_ = order; }
  bool empty() const { return first_ == last_; }
  void push(unsigned thread) { threads_[last_++ % kMostThreads] = thread; }
  unsigned pop() { return threads_[(order_ == Order::in_step ? first_++ : --last_) % kMostThreads]; }

 private:
  Order order_ = Order::in_step;
  unsigned threads_[kMostThreads];
  unsigned first_ = 0, last_ = 0;
};

const std::function<void()>* kernel;
std::vector<Thread> threads(kMostThreads);
std::vector<Warp> warps(kMostThreads / kLanes);
std::map<int, Barrier> barriers;
Queue ready;
unsigned current, alive, thread_count;
jmp_buf scheduler;
char* shared_begin;
unsigned shared_bytes;

void begin_fiber() {
  for (;;) {
    (*kernel)();
    threads[current].copies.clear();
    threads[current].batches.clear();
    --alive;
    Thread& self = threads[current];
    if (_setjmp(self.state) == 0) _longjmp(scheduler, 1);
  }
}

[[noreturn]] void resume(unsigned thread) {
  current = thread;
  Thread& next = threads[thread];
  threadIdx = next.index;
  if (next.has_begun) _longjmp(next.state, 1);
  next.has_begun = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = reserve(kStackBytes);
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, begin_fiber, 0);
  setcontext(&context);
  std::abort();
}

// Other threads run until one makes this one ready.
[[gnu::noinline]] void wait() {
  if (ready.empty()) fail("all threads of a block wait, some for threads that have ended or wait elsewhere");
  const unsigned next = ready.pop();
  Thread& self = threads[current];
  if (_setjmp(self.state) == 0) resume(next);
}

[[gnu::noinline]] void run_ready_threads() {
  while (alive > 0) {
    if (ready.empty()) fail("threads of a block wait for threads that have ended");
    const unsigned next = ready.pop();
    if (_setjmp(scheduler) == 0) resume(next);
  }
}

void run_block(const Launch& launch) {
  std::memset(shared_begin, kNotANumber, kMostSharedBytes + kPageBytes);
  alive = thread_count;
  for (unsigned thread = 0; thread < thread_count; ++thread) {
    const unsigned row = thread / launch.block.x;
    threads[thread].index = {thread % launch.block.x, row % launch.block.y, row / launch.block.y};
    ready.push(thread);
  }
  run_ready_threads();
  for (unsigned at = shared_bytes; at < shared_bytes + kPageBytes; ++at)
    if (static_cast<unsigned char>(shared_begin[at]) != kNotANumber) fail("a write beyond the launch's shared memory");
}

float half_value(unsigned bits) {
  std::uint32_t wide = (bits & 0x7fffU) << 13;
  float value;
  std::memcpy(&value, &wide, 4);
  value *= 0x1p112F;
  std::memcpy(&wide, &value, 4);
  wide |= ((bits & 0x7c00U) == 0x7c00U ? 0x7f800000U : 0U) | (bits & 0x8000U) << 16;
  std::memcpy(&value, &wide, 4);
  return value;
}
float value_of(unsigned bits, bool is_bf16) {
  if (!is_bf16) return half_value(bits & 0xffffU);
  return __uint_as_float(bits << 16);
}

// Lanes have the elements that device/warp_mma.cuh lists.
template <class Visit>
void each_of_first(Multiplication& own, unsigned lane, Visit visit) {
  for (unsigned i = 0; i < 4; ++i) visit(lane / 4 + i % 2 * 8, lane % 4 * 2 + i / 2 * 8, own.a[i]);
}

}  // namespace

[[gnu::optimize("O3")]] void multiply_tiles(char* operands, bool is_bf16) {
  float a[16][16], b[16][8], c[16][8];
  const auto lane_at = [&](unsigned lane) -> Multiplication& {
    return *reinterpret_cast<Multiplication*>(operands + lane * kOperandBytes);
  };
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    Multiplication& own = lane_at(lane);
    each_of_first(own, lane, [&](unsigned row, unsigned column, unsigned pair) {
      a[row][column] = value_of(pair & 0xffffU, is_bf16);
      a[row][column + 1] = value_of(pair >> 16, is_bf16);
    });
    for (unsigned i = 0; i < 2; ++i) {
      b[lane % 4 * 2 + i * 8][lane / 4] = value_of(own.b[i] & 0xffffU, is_bf16);
      b[lane % 4 * 2 + i * 8 + 1][lane / 4] = value_of(own.b[i] >> 16, is_bf16);
    }
    for (unsigned i = 0; i < 4; ++i) c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = own.c[i];
  }
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned column = 0; column < 8; ++column) c[row][column] += a[row][k] * b[k][column];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned i = 0; i < 4; ++i) lane_at(lane).c[i] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

void fail(const std::string& what) {
  std::fprintf(stderr, "emulated kernel, block (%u, %u, %u), thread (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y,
               blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, what.c_str());
  std::_Exit(1);
}

void run(const Launch& launch, Order order, const std::function<void()>& body) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (shared_begin == nullptr) shared_begin = reserve(kMostSharedBytes + kPageBytes);
  if (launch.shared_bytes > kMostSharedBytes) fail("more shared memory than any GPU has");
  kernel = &body;
  ready.set_order(order);
  gridDim = launch.grid;
  blockDim = launch.block;
  shared_bytes = launch.shared_bytes;
  thread_count = launch.block.x * launch.block.y * launch.block.z;
  for (blockIdx.z = 0; blockIdx.z < launch.grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < launch.grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < launch.grid.x; ++blockIdx.x) run_block(launch);
}

unsigned lane() { return current % kLanes; }

void meet(int id, int expected) {
  if (expected == 0) expected = static_cast<int>(thread_count);
  Barrier& barrier = barriers[id];
  if (barrier.waiting.empty()) barrier.expected = expected;
  if (barrier.expected != expected) fail("threads expect different numbers of threads at a barrier");
  if (static_cast<int>(barrier.waiting.size()) + 1 < expected) {
    barrier.waiting.push_back(current);
    return wait();
  }
  for (const unsigned thread : barrier.waiting) ready.push(thread);
  barrier.waiting.clear();
}

char* place_of_operand() { return warps[current / kLanes].operands + lane() * kOperandBytes; }

void meet_lanes(unsigned mask, const void* operation, void (*compute)(char* operands, void* user), void* user) {
  Warp& warp = warps[current / kLanes];
  const unsigned own = lane();
  if (warp.arrived == 0) {
    warp.mask = mask;
    warp.operation = operation;
  }
  if (warp.mask != mask || warp.operation != operation || (mask >> own & 1U) == 0)
    fail("lanes of a warp meet at different operations");
  warp.arrived |= 1U << own;
  if (warp.arrived != mask) return wait();
  compute(warp.operands, user);
  warp.arrived = 0;
  for (unsigned other = 0; other < kLanes; ++other)
    if ((mask >> other & 1U) != 0 && other != own) ready.push(current - own + other);
}

char* shared() { return shared_begin; }
std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(static_cast<const char*>(pointer) - shared_begin);
}
char* at_shared_address(std::uint32_t address, unsigned bytes) {
  if (address % bytes != 0) fail("an access of shared memory at no multiple of its size");
  if (address > shared_bytes || bytes > shared_bytes - address) fail("an access beyond the launch's shared memory");
  return shared_begin + address;
}

void copy_in(std::uint32_t to, const void* from, bool zeros) {
  char* const place = at_shared_address(to, 16);
  if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0) fail("a copy from no multiple of 16 bytes");
  std::memset(place, kNotANumber, 16);
  threads[current].copies.push_back({place, from, zeros});
}
void end_copies() {
  Thread& self = threads[current];
  std::size_t earlier = 0;
  for (const std::size_t count : self.batches) earlier += count;
  self.batches.push_back(self.copies.size() - earlier);
}
void wait_for_copies(int pending) {
  Thread& self = threads[current];
  while (static_cast<int>(self.batches.size()) > pending) {
    const auto end = self.copies.begin() + static_cast<std::ptrdiff_t>(self.batches.front());
    for (auto copy = self.copies.begin(); copy != end; ++copy) {
      if (copy->zeros) std::memset(copy->to, 0, 16);
      if (!copy->zeros) std::memcpy(copy->to, copy->from, 16);
    }
    self.copies.erase(self.copies.begin(), end);
    self.batches.erase(self.batches.begin());
  }
}

}  // namespace emulated
