#include "core/processes/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>

#include "core/text/text.h"
#include "ridgepoint/error.h"

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

// What posix_spawn() takes beside the program: its three descriptors, and a process group and signals of its own.
class SpawnSettings {
 public:
  SpawnSettings(int input_and_output, int errors) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input_and_output, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, input_and_output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

}  // namespace

void end_with_parent() {
  const char* parent = std::getenv(kEndWithParent);
  if (parent == nullptr) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::to_string(::getppid()) != parent) std::_Exit(EXIT_FAILURE);
  ::unsetenv(kEndWithParent);  // its own children are not this one's parent's
}

ChildProcess::ChildProcess(const std::vector<std::string>& words, const Variables& variables) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail_to_start(words[0], errno);
  connection_ = Descriptor(ends[0]);
  const Descriptor other_end(ends[1]);
  errors_ = Descriptor(::memfd_create("standard error", MFD_CLOEXEC));
  if (!errors_.is_open()) fail_to_start(words[0], errno);
  const SpawnSettings settings(other_end.number(), errors_.number());
  std::vector<std::string> arguments = words;
  std::vector<std::string> environment = environment_with(variables);
  const int failure = ::posix_spawnp(&pid_, words[0].c_str(), &settings.actions, &settings.attributes,
                                     pointers_to(arguments).data(), pointers_to(environment).data());
  if (failure != 0) {
    pid_ = -1;
    fail_to_start(words[0], failure);
  }
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
    if (got <= 0) return std::nullopt;
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
