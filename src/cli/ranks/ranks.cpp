#include "cli/ranks/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "backends/mpi/mpirun.h"
#include "cli/terminal/host.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/messages.h"
#include "cli/terminal/standard_streams.h"
#include "core/text/throw_error.h"
#include "ridgepoint/runtime/program.h"
#include "run/machine/host.h"
#include "runtime/device/device.h"

namespace ridgepoint::cli {
namespace {

constexpr double kCollectiveLimitSeconds = 300;
constexpr double kMostLimitSeconds = 1e6;
// A text of environment that sets another limit, in seconds.
constexpr const char* kLimitVariable = "RIDGEPOINT_COLLECTIVE_TIMEOUT";
// The number of processes by Open MPI, by MPICH and others (PMI), and by SLURM's srun.
constexpr std::array kCountVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

// Environment of ranks that --ranks starts: where standard output and standard error of the command lead.
constexpr const char* kOutputPath = "RIDGEPOINT_OUTPUT";
constexpr const char* kErrorPath = "RIDGEPOINT_ERROR";

// The first rank prints the rows and often fails for the same reason. If another one fails, it has this time to print
// its own before all are ended.
constexpr std::chrono::seconds kTimeOfFirstRank{1};

// Environment of all ranks that --ranks starts.
constexpr const char* kStarted = "RIDGEPOINT_STARTED_RANKS";

std::shared_ptr<ProcessGroup>& group() {
  static std::shared_ptr<ProcessGroup> joined;
  return joined;
}

std::vector<std::string>& arguments() {
  static std::vector<std::string> given;
  return given;
}

// A number that is all of a text of environment.
std::optional<double> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  double value = 0;
  const std::string_view digits(text);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_number = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  return is_number ? std::optional(value) : std::nullopt;
}

double collective_limit_seconds() {
  const char* text = std::getenv(kLimitVariable);
  if (text == nullptr) return kCollectiveLimitSeconds;
  const std::optional<double> seconds = number_in(kLimitVariable);
  if (seconds && *seconds > 0 && *seconds <= kMostLimitSeconds) return *seconds;
  refuse("{} is '{}'; give a number of seconds, above 0 and up to {:.0f}", kLimitVariable, text, kMostLimitSeconds);
}

std::string joined(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) text += word + '\n';
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

void check_agreement(std::span<const std::string> command_line) {
  const std::vector<std::string> all = group()->all_gather(joined(command_line), "options");
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const std::vector<std::string> first = lines_of(all[0]), other = lines_of(all[rank]);
    std::size_t i = 0;
    while (i < first.size() && i < other.size() && first[i] == other[i]) ++i;
    // With its option, if it is a value.
    const auto word = [i](const std::vector<std::string>& words) {
      if (i >= words.size()) return std::string("nothing");
      const bool is_value = i > 0 && words[i - 1].starts_with("--") && !words[i].starts_with("--");
      return "'" + (is_value ? words[i - 1] + " " : "") + words[i] + "'";
    };
    refuse("the ranks have different options: rank 0 has {} where rank {} has {}", word(first), rank, word(other));
  }
}

// mpirun connects ranks to pipes, so they cannot see that they print to a terminal, or its width; and Open MPI 5
// forwards nothing once it was asked to stop. This process becomes mpirun, which keeps its number and its streams. In a
// file, mpirun and rank 0 both write at the end.
void announce_streams() {
  const auto announce = [](const char* variable, int descriptor) {
    const char* terminal = ttyname(descriptor);
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_APPEND);
    setenv(variable, terminal != nullptr ? terminal : fmt::format("/proc/{}/fd/{}", getpid(), descriptor).c_str(), 1);
  };
  announce(kOutputPath, STDOUT_FILENO);
  struct stat output {};
  // The reader of a pipe, as a pager, may draw on the terminal itself.
  const bool is_pipe = fstat(STDOUT_FILENO, &output) == 0 && (S_ISFIFO(output.st_mode) || S_ISSOCK(output.st_mode));
  if (!is_pipe || ttyname(STDERR_FILENO) == nullptr) announce(kErrorPath, STDERR_FILENO);
}

// Rank 0 prints where the command that --ranks started prints. What cannot be opened, as a socket, stays with mpirun.
void open_streams() {
  const auto open = [](const char* variable, int descriptor) {
    const char* path = std::getenv(variable);
    if (path == nullptr) return;
    std::signal(SIGTTOU, SIG_IGN);  // mpirun has the foreground
    redirect(path, descriptor);
  };
  open(kOutputPath, STDOUT_FILENO);
  open(kErrorPath, STDERR_FILENO);
}

// Whether every rank has the same usage error, so that all of them leave by themselves.
bool all_refuse(const std::string& usage_error) {
  try {
    group()->all_gather({}, "a usage error: " + usage_error);
    return true;
  } catch (const Error&) {
    return false;
  } catch (const LostRanks&) {
    return false;
  }
}

int threads_of_rank(ProcessGroup& ranks) {
  std::string machine;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), machine);
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&set);
  const std::string mine = fmt::format("{} {:02x}", machine, fmt::join(bytes, bytes + sizeof set, ""));
  return share_of_cores(cores, mine, ranks.all_gather(mine, "the cores that ranks may use"));
}

// The host and the card of a rank that sees one card alone, and how that was chosen for it: two MIG slices of a card
// have one place. Empty for other ranks.
std::string only_card() {
  const auto is_card = [](const std::string& name) { return name.starts_with("cuda:"); };
  if (std::ranges::count_if(device_names(), is_card) != 1) return "";
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return fmt::format("{} {}", place_of_card(*open_device("cuda:0")), visible == nullptr ? "" : visible);
}

// The card with the number of the rank, unless a scheduler shows each rank only the one that it gave it.
int card_of_rank(ProcessGroup& ranks) {
  const std::string mine = ranks.ranks_on_host() > 1 ? only_card() : "";
  const std::vector<std::string> all = ranks.all_gather(mine, "the cards that ranks see");
  return !mine.empty() && std::ranges::count(all, mine) == 1 ? 0 : ranks.rank_on_host();
}

std::string_view count_variable() {
  const auto* found =
      std::ranges::find_if(kCountVariables, [](const char* variable) { return number_in(variable).value_or(1) > 1; });
  return found == kCountVariables.end() ? "" : *found;
}

}  // namespace

int share_of_cores(int cores, const std::string& mine, std::span<const std::string> all) {
  return std::max(1, cores / static_cast<int>(std::ranges::count(all, mine)));
}

bool is_started_as_rank() { return !count_variable().empty(); }

std::string how_to_start(std::int64_t count) {
  if (is_started_as_rank()) {
    return fmt::format(
        "{} says that there are several, but MPI does not connect them: with srun give --mpi=pmix, or "
        "one of 'srun --mpi=list'; an mpirun must be that of the MPI that this program was built with",
        count_variable());
  }
  return fmt::format("add --ranks {0} to start them on this machine, or start them with mpirun -n {0}", count);
}

void join_ranks(std::span<const std::string> command_line) {
  arguments().assign(command_line.begin(), command_line.end());
  if (!is_started_as_rank()) return;
  group() = join_process_group(collective_limit_seconds());
  if (group() != nullptr) name_speaker(fmt::format("rank {}", group()->rank()));
  if (is_first_rank()) {
    open_streams();
  } else {
    redirect("/dev/null", STDOUT_FILENO);
  }
  check_agreement(command_line);
}

const std::shared_ptr<ProcessGroup>& joined_ranks() { return group(); }

bool is_first_rank() { return group() == nullptr || group()->rank() == 0; }

bool tells_for_all_ranks() { return is_first_rank() && std::getenv(kStarted) == nullptr; }

void start_ranks(std::int64_t count) {
  require_own_process("--ranks");
  setenv(kStarted, "1", 1);
  prepare_mpirun();
  announce_streams();
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(count), "/proc/self/exe"};
  std::array<char, 4096> program{};
  if (const ssize_t length = readlink("/proc/self/exe", program.data(), program.size() - 1); length > 0)
    words.back() = std::string(program.data(), static_cast<std::size_t>(length));
  words.insert(words.end(), arguments().begin(), arguments().end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (ignores_hangup()) {  // mpirun does not, unless it is blocked
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    sigprocmask(SIG_BLOCK, &hangup, nullptr);
  }
  execvp(pointers[0], pointers.data());
  throw_error(ErrorKind::unsupported,
              "--ranks starts processes with mpirun, which cannot be started ({}); install it (Debian: "
              "openmpi-bin)",
              std::generic_category().message(errno));
}

std::string device_of_rank(const std::string& device, ProcessGroup& group) {
  return device == "cuda" ? fmt::format("cuda:{}", card_of_rank(group)) : device;
}

std::string path_of_rank(const std::filesystem::path& path) {
  if (group() == nullptr) return path.string();
  const std::string name = fmt::format("{}.rank{}{}", path.stem().string(), group()->rank(), path.extension().string());
  return (path.parent_path() / name).string();
}

void place_on_rank(RunConfig& config) {
  ParallelOptions& parallel = config.compile.parallel;
  const std::int64_t ranks = group() == nullptr ? 1 : group()->ranks();
  if ((ranks == 1 && !parallel.is_parallel()) || config.device == "null") return;
  if (ranks == 1) {
    refuse("--parallel data={0} needs {0} processes: {1}", parallel.data, how_to_start(parallel.data));
  }
  if (parallel.data != ranks) {
    refuse("{} ranks were started, and the options are for {}; give --parallel data={}", ranks, parallel.data, ranks);
  }
  config.group = group();
  parallel.rank = group()->rank();
  config.device = device_of_rank(config.device, *group());
  if (config.device_options.threads == 0) config.device_options.threads = threads_of_rank(*group());
}

void leave_ranks(int exit_code, const std::string& usage_error) {
  if (group() == nullptr) return;
  if (exit_code == interrupt_exit_code()) {  // mpirun ends the others, or has begun to
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }
  const bool all_leave =
      exit_code == kExitOk || exit_code == kExitNothingFits || (exit_code == kExitUsage && all_refuse(usage_error));
  if (!all_leave) {
    if (!is_first_rank() && !usage_error.empty()) print_error(usage_error);
    std::fflush(nullptr);
    if (!is_first_rank()) std::this_thread::sleep_for(kTimeOfFirstRank);
    group()->abort(exit_code);
  }
  group().reset();
}

}  // namespace ridgepoint::cli
