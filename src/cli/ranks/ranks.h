// The ranks of a parallel run: processes that mpirun, a cluster's scheduler or --ranks started with one command line.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "ridgepoint/models/run_config.h"
#include "runtime/device/communicator.h"

namespace ridgepoint::cli {

// Whether mpirun or a scheduler started this process as one of several.
bool is_started_as_rank();

// Joins the others, if there are any; the first call of the program, with its arguments. All must have the same ones:
// throws Error (usage) that names the first difference. Only rank 0 prints and writes files from then on; with --ranks
// it prints to the terminal from which the run was started.
void join_ranks(std::span<const std::string> command_line);
// The ranks; null for a process of its own.
const std::shared_ptr<ProcessGroup>& joined_ranks();
// Whether this process prints and writes files: it is rank 0, or the only one.
bool is_first_rank();

// Whether this process prints what every rank could: it is the first one, and no start_ranks() came before it, whose
// process has printed it.
bool tells_for_all_ranks();

// Replaces this process by mpirun with `count` of it on this machine. Throws Error where that is not installed.
[[noreturn]] void start_ranks(std::int64_t count);

// What to do where a command needs `count` ranks and this process is alone.
std::string how_to_start(std::int64_t count);

// cuda becomes the card with the number of the rank on this machine, or the only card that this rank sees if the other
// ranks have others; other names stay. All ranks call it.
std::string device_of_rank(const std::string& device, ProcessGroup& group);

// The threads of a rank that may use so many cores. `mine` says which cores of which machine these are, and `all` what
// each rank may use: those that may use the same cores share them evenly, and a rank with cores of its own takes all.
int share_of_cores(int cores, const std::string& mine, std::span<const std::string> all);

// The name of a file that each rank writes: that of rank 1 for m.svg is m.rank1.svg. Unchanged for a process of its
// own.
std::string path_of_rank(const std::filesystem::path& path);

// Gives a configuration that runs on several ranks its group, its rank, and its share of this machine: cuda becomes the
// card with the number of the rank, and processors share the cores. Throws Error (usage) where the ranks that there are
// do not fit the configuration.
void place_on_rank(RunConfig& config);

// Ends the run of all ranks, as the last call of the program: a failure ends those of the others too. A usage error
// that all ranks have ends each by itself, without the messages of MPI_Abort. Rank 0 has printed it; another rank
// prints one that not all have.
void leave_ranks(int exit_code, const std::string& usage_error);

}  // namespace ridgepoint::cli
