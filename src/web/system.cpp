// What the program asks of a system, and a web page has not: several processors, other processes, signals, a terminal,
// an environment, a disk. And the clock, which Emscripten 3.1.6 writes into numbers of 32 bits.
#include <emscripten.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <wasi/api.h>

#include <cerrno>
#include <chrono>
#include <ctime>

#include "backends/mpi/mpirun.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/communicator.h"

EM_JS(double, date_ms, (), { return Date.now(); });

extern "C" {

int sched_getaffinity(pid_t /*process*/, std::size_t /*bytes*/, cpu_set_t* /*set*/) {
  errno = ENOSYS;
  return -1;
}
int __sched_cpucount(std::size_t /*bytes*/, const cpu_set_t* /*set*/) { return 1; }
int sigaltstack(const stack_t* /*stack*/, stack_t* /*old*/) { return 0; }
int sync_file_range(int /*file*/, off_t /*begin*/, off_t /*bytes*/, unsigned /*flags*/) { return 0; }  // no disk

int isatty(int /*descriptor*/) {
  errno = ENOTTY;
  return 0;
}

__wasi_errno_t __wasi_environ_sizes_get(__wasi_size_t* variables, __wasi_size_t* bytes) {
  *variables = *bytes = 0;
  return 0;
}
__wasi_errno_t __wasi_environ_get(uint8_t** /*variables*/, uint8_t* /*bytes*/) { return 0; }

int clock_gettime(clockid_t clock, timespec* now) {
  const double ms = clock == CLOCK_REALTIME ? date_ms() : emscripten_get_now();
  now->tv_sec = static_cast<time_t>(ms / 1e3);
  now->tv_nsec = static_cast<long>((ms - static_cast<double>(now->tv_sec) * 1e3) * 1e6);
  return 0;
}

tm* gmtime_r(const time_t* time, tm* result) {
  const std::chrono::seconds since{*time};
  const auto days = std::chrono::floor<std::chrono::days>(since);
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  const auto of_day = (since - days).count();
  *result = {};
  result->tm_year = static_cast<int>(date.year()) - 1900;
  result->tm_mon = static_cast<int>(static_cast<unsigned>(date.month())) - 1;
  result->tm_mday = static_cast<int>(static_cast<unsigned>(date.day()));
  result->tm_hour = static_cast<int>(of_day / 3600);
  result->tm_min = static_cast<int>(of_day / 60 % 60);
  result->tm_sec = static_cast<int>(of_day % 60);
  return result;
}
}

namespace ridgepoint {
namespace {

[[noreturn]] void refuse() {
  throw Error("a web page starts no ranks; it plans them, as --parallel data=8", ErrorKind::unsupported);
}

}  // namespace

std::shared_ptr<ProcessGroup> join_process_group(double /*collective_limit_seconds*/) { refuse(); }
void prepare_mpirun() { refuse(); }

}  // namespace ridgepoint
