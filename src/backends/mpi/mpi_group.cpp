#include "backends/mpi/mpi_group.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr const char* kLibraryFile = "libridgepoint_mpi.so";
// Of a text that are exchanged at a time: MPI counts with int, and the logits of all ranks may be more.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

// Beside the program, as in a build folder, or where an installation has it.
std::vector<std::filesystem::path> library_places() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return {program / kLibraryFile, program.parent_path() / kLibraryFile,
          program.parent_path() / RIDGEPOINT_LIBRARY_FOLDER / kLibraryFile};
}

MpiLibrary& load_library() {
  std::string problem;
  for (const std::filesystem::path& place : library_places()) {
    if (!std::filesystem::exists(place)) continue;
    void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);  // Open MPI opens parts of itself by name
    if (handle == nullptr) {
      problem = dlerror();
      continue;
    }
    const auto function = reinterpret_cast<MpiLibraryFunction>(dlsym(handle, kMpiLibraryFunction));
    if (function != nullptr) return *function();
    problem = place.string() + " has another interface";
  }
  if (problem.empty()) {
    throw Error(
        "this build has no MPI, which several ranks need; build it on a machine with MPI (Debian: "
        "libopenmpi-dev)",
        ErrorKind::unsupported);
  }
  throw Error(
      "MPI cannot be loaded, and several ranks need it (" + problem + "); install its libraries (Debian: openmpi-bin)",
      ErrorKind::unsupported);
}

}  // namespace

MpiGroup::MpiGroup(std::chrono::duration<double> collective_limit)
    : library_(load_library()), thread_(library_, collective_limit) {}

std::vector<std::string> MpiGroup::exchange(const std::string& mine, std::string_view what, TimeLimit limit) {
  const auto count = static_cast<std::size_t>(ranks());
  const std::size_t size = mine.size();
  std::vector<std::size_t> sizes(count);
  gather(&size, sizes.data(), sizeof size, what, limit);
  const std::size_t longest = *std::ranges::max_element(sizes);
  std::string padded = mine;
  padded.resize(longest);
  std::vector<std::string> texts(count);
  for (std::size_t begin = 0; begin < longest; begin += kMostBytes) {
    const std::size_t bytes = std::min(longest - begin, kMostBytes);
    std::string all(bytes * count, '\0');
    gather(padded.data() + begin, all.data(), bytes, what, TimeLimit::of_collectives);
    for (std::size_t rank = 0; rank < count; ++rank) {
      const std::size_t left = sizes[rank] - std::min(begin, sizes[rank]);
      texts[rank].append(all, rank * bytes, std::min(bytes, left));
    }
  }
  return texts;
}

void MpiGroup::gather(const void* in, void* out, std::size_t bytes, std::string_view what, TimeLimit limit) {
  thread_.wait(thread_.start([=](MpiLibrary& mpi) { mpi.begin_all_gather(in, out, bytes); },
                             "the exchange of " + std::string(what), CommunicationThread::Purpose::exchange, limit));
}

void MpiGroup::abort(int exit_code) {
  thread_.abandon();
  library_.abort(exit_code);
  std::_Exit(exit_code);
}

std::shared_ptr<ProcessGroup> join_process_group(double collective_limit_seconds) {
  return std::make_shared<MpiGroup>(std::chrono::duration<double>(collective_limit_seconds));
}

}  // namespace ridgepoint
