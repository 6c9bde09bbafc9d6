#include "core/processes/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <memory>

#include "core/text/text.h"
#include "ridgepoint/core/error.h"

extern char** environ;

namespace ridgepoint {
namespace {

constexpr int kPollMilliseconds = 100;
constexpr off_t kMostErrorBytes = 1 << 16;

[[noreturn]] void fail_to_start(const std::string& program, int error) { throw_system_error("start", program, error); }

// Null-terminated, as exec() takes it.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(const ChildProcess::Variables& variables) {
  std::vector<std::string> lines;
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string_view name = std::string_view(*line).substr(0, std::string_view(*line).find('='));
    if (std::ranges::none_of(variables, [&](const auto& variable) { return variable.first == name; }))
      lines.emplace_back(*line);
  }
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

// A number, at first 0, that a new process shares with this one.
class SharedNumber {
 public:
  SharedNumber() : address_(::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (address_ == MAP_FAILED) throw_system_error("map", "memory", errno);
  }
  ~SharedNumber() { ::munmap(address_, sizeof(int)); }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;
  int& operator*() const { return *static_cast<int*>(address_); }

 private:
  void* address_;
};

// What a new process becomes.
struct Start {
  char* const* words;
  char* const* environment;
  int input_and_output;
  int errors;
  int& failure;  // out: the error of the system; in memory that both processes share
  pid_t parent = ::getpid();
};

// ThreadSanitizer takes what a new process does in shared memory for work of this thread, and then sees races where
// there are none.
#ifdef __SANITIZE_THREAD__
constexpr int kSharedMemory = 0;
#else
constexpr int kSharedMemory = CLONE_VM;
#endif

// In the new process. Until it runs the program it has the memory of this one, whose thread waits: it calls the system
// and nothing else. It gets a process group and unblocked signals of its own, and the signal that ends it with its
// parent, which may have ended before that.
int become(void* of) {
  auto& start = *static_cast<Start*>(of);
  sigset_t none;
  sigemptyset(&none);
  const bool is_ready = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == start.parent &&
                        ::setpgid(0, 0) == 0 && ::dup2(start.input_and_output, STDIN_FILENO) >= 0 &&
                        ::dup2(start.input_and_output, STDOUT_FILENO) >= 0 &&
                        ::dup2(start.errors, STDERR_FILENO) >= 0 && ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
  if (is_ready) ::execvpe(start.words[0], start.words, start.environment);
  start.failure = errno;
  return EXIT_FAILURE;
}

// As posix_spawn() starts a process, quickly however much memory this one has; posix_spawn() knows no signal for the
// end of the parent. Meanwhile this thread gets no signals, whose handlers the new process would run in its memory.
pid_t run_in_new_process(Start& start) {
  constexpr std::size_t kStackBytes = std::size_t{1} << 18;
  const auto stack = std::make_unique<std::byte[]>(kStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::clone(become, stack.get() + kStackBytes, kSharedMemory | CLONE_VFORK | SIGCHLD, &start);
  if (pid < 0) start.failure = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words, const Variables& variables) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail_to_start(words[0], errno);
  connection_ = Descriptor(ends[0]);
  const Descriptor other_end(ends[1]);
  errors_ = Descriptor(::memfd_create("standard error", MFD_CLOEXEC));
  if (!errors_.is_open()) fail_to_start(words[0], errno);
  std::vector<std::string> arguments = words;
  std::vector<std::string> environment = environment_with(variables);
  const std::vector<char*> argument_pointers = pointers_to(arguments), environment_pointers = pointers_to(environment);
  const SharedNumber failure;
  Start start{argument_pointers.data(), environment_pointers.data(), other_end.number(), errors_.number(), *failure};
  pid_ = run_in_new_process(start);
  if (*failure == 0) return;
  if (pid_ >= 0) wait();
  fail_to_start(words[0], *failure);
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  wait();
}

bool ChildProcess::write_line(std::string_view line) {
  std::string text(line);
  text += '\n';
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t sent =
        uninterrupted([&] { return ::send(connection_.number(), rest.data(), rest.size(), MSG_NOSIGNAL); });
    if (sent < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::optional<std::string> ChildProcess::read_line(const StopPoint& stop_point) {
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (stop_point) stop_point();
    pollfd waiting{connection_.number(), POLLIN, 0};
    if (uninterrupted([&] { return ::poll(&waiting, 1, kPollMilliseconds); }) <= 0) continue;
    std::array<char, 1 << 16> buffer;
    const ssize_t got = uninterrupted([&] { return ::recv(connection_.number(), buffer.data(), buffer.size(), 0); });
    if (got <= 0) {
      if (stop_point) stop_point();  // what ended this process may be what stops that one
      return std::nullopt;
    }
    received_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

int ChildProcess::wait() {
  connection_ = Descriptor();
  int status = 0;
  const pid_t pid = std::exchange(pid_, -1);
  uninterrupted([&] { return ::waitpid(pid, &status, 0); });
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string ChildProcess::last_error_line() const {
  struct stat status {};
  if (::fstat(errors_.number(), &status) != 0) return "";
  const off_t begin = std::max<off_t>(status.st_size - kMostErrorBytes, 0);
  std::string text(static_cast<std::size_t>(status.st_size - begin), '\0');
  const ssize_t got = uninterrupted([&] { return ::pread(errors_.number(), text.data(), text.size(), begin); });
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::string_view lines = trimmed(text);
  return printable(lines.substr(lines.rfind('\n') + 1));
}

}  // namespace ridgepoint
