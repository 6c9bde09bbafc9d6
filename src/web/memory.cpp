// Allocation, copies and comparisons of memory. A browser runs a page's first plan in the code of its baseline
// compiler. There, Emscripten's allocator and its copies byte by byte take a third of a plan's time.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// A block has a multiple of 16 bytes: a header of 8, which says how many sixteens, and the caller's bytes, aligned
// to 16. A block that is freed waits in a list for the next request of its size. Blocks of more than 512 bytes are
// malloc()'s; their header is 0.
constexpr std::size_t kUnit = 16, kMostUnits = 32, kChunkBytes = std::size_t{1} << 16;
using Header = std::uint64_t;

struct Free {
  Free* next;
};
std::array<Free*, kMostUnits + 1> free_blocks;
std::byte* unused = nullptr;  // the rest of a chunk
std::byte* unused_end = nullptr;

Header& header_of(void* block) { return *(static_cast<Header*>(block) - 1); }

std::byte* aligned_memory(std::size_t bytes) {
  void* const found = std::aligned_alloc(kUnit, (bytes + kUnit - 1) / kUnit * kUnit);
  if (found == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(found);
}

void* new_block(std::size_t units) {
  if (static_cast<std::size_t>(unused_end - unused) < units * kUnit) {
    unused = aligned_memory(kChunkBytes) + kUnit;
    unused_end = unused + kChunkBytes - kUnit;
  }
  void* const block = unused;
  unused += units * kUnit;
  header_of(block) = units;
  return block;
}

// Accesses of any alignment, which WebAssembly has.
template <typename T>
T load(const void* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void store(void* at, T value) {
  __builtin_memcpy(at, &value, sizeof(T));
}

// Of sizeof(T) to twice as many bytes, which may overlap: all is read before any is written.
template <typename T>
void move_two(std::byte* to, const std::byte* from, std::size_t bytes) {
  const T first = load<T>(from);
  const T last = load<T>(from + bytes - sizeof(T));
  store(to, first);
  store(to + bytes - sizeof(T), last);
}

}  // namespace

void* operator new(std::size_t bytes) {
  const std::size_t units = (bytes + sizeof(Header) + kUnit - 1) / kUnit;
  if (units > kMostUnits || bytes > kMostUnits * kUnit) {
    std::byte* const block = aligned_memory(bytes + kUnit) + kUnit;
    header_of(block) = 0;
    return block;
  }
  Free*& first = free_blocks[units];
  if (first == nullptr) return new_block(units);
  Free* const block = first;
  first = block->next;
  return block;
}

void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  const Header units = header_of(block);
  if (units == 0) return std::free(static_cast<std::byte*>(block) - kUnit);  // NOLINT
  Free*& first = free_blocks[units];
  first = new (block) Free{first};
}
void operator delete(void* block, std::size_t /*bytes*/) noexcept { operator delete(block); }

extern "C" {

// The compiler makes one instruction of these two, which moves or fills in the browser's own code.
void* memmove(void* to, const void* from, std::size_t bytes) {
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  if (bytes > 2 * sizeof(std::uint64_t)) {
    __builtin_memmove(to, from, bytes);
  } else if (bytes >= sizeof(std::uint64_t)) {
    move_two<std::uint64_t>(target, source, bytes);
  } else if (bytes >= sizeof(std::uint32_t)) {
    move_two<std::uint32_t>(target, source, bytes);
  } else if (bytes >= sizeof(std::uint16_t)) {
    move_two<std::uint16_t>(target, source, bytes);
  } else if (bytes == 1) {
    *target = *source;
  }
  return to;
}
void* memcpy(void* to, const void* from, std::size_t bytes) { return memmove(to, from, bytes); }
void* memset(void* to, int value, std::size_t bytes) {
  __builtin_memset(to, value, bytes);
  return to;
}

int memcmp(const void* left, const void* right, std::size_t bytes) {
  const auto* a = static_cast<const unsigned char*>(left);
  const auto* b = static_cast<const unsigned char*>(right);
  for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t)) {
    if (load<std::uint64_t>(a) != load<std::uint64_t>(b)) break;
    a += sizeof(std::uint64_t);
    b += sizeof(std::uint64_t);
  }
  for (; bytes > 0 && *a == *b; --bytes) {
    ++a;
    ++b;
  }
  return bytes == 0 ? 0 : *a - *b;
}
}
