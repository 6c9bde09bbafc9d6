#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "cli/application.h"
#include "cli/terminal/standard_streams.h"
#include "core/rounding.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

// A graph is many small blocks of memory, which pass after pass reads: in pages of 2 MiB a plan takes an eighth less
// time. The heap begins with room for the graphs of a plan and asks the kernel for such pages there; where it has none,
// only the room remains, which costs nothing until it is used.
void ask_for_large_pages() {
#ifdef __GLIBC__
  constexpr int kRoomBytes = 64 << 20;
  ::mallopt(M_TOP_PAD, kRoomBytes);
  ::mallopt(M_MMAP_THRESHOLD, kRoomBytes / 2);  // the values that glibc itself goes up to
  ::mallopt(M_TRIM_THRESHOLD, kRoomBytes);
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = ridgepoint::round_up(reinterpret_cast<std::uintptr_t>(::sbrk(0)), page_bytes);
  void* volatile grows_heap = std::malloc(kRoomBytes / 8);
  std::free(grows_heap);
  const auto end = reinterpret_cast<std::uintptr_t>(::sbrk(0));
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  ask_for_large_pages();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` is an error like another
  ridgepoint::cli::reserve_standard_streams();
  return ridgepoint::cli::run_application(argc, argv);
}
