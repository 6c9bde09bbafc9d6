// What the program says to whoever started it: standard output, messages on standard error, and the exit code. Within a
// host (host.h) nothing is printed; the host gets it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/text/throw_error.h"

namespace ridgepoint::cli {

// Exit codes of the program.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitSlower = 3;       // compare --fail-if-slower
inline constexpr int kExitNothingFits = 4;  // every row ran out of memory, or would; with --fail-unless-fits one row
inline constexpr int kExitMoreMemory = 5;   // compare --fail-if-more-memory
inline constexpr int kExitWorseLoss = 6;    // compare --fail-if-loss-worse; interrupt_exit_code() is another
// train: it was asked to end, or out of time, and goes on with --resume. A scheduler may queue it again (EX_TEMPFAIL).
inline constexpr int kExitResume = 75;

// Throws Error (usage) with the message.
template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> message, Args&&... args) {
  throw_error(ErrorKind::usage, message, std::forward<Args>(args)...);
}
// The same unless the condition holds.
template <typename... Args>
void require(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) refuse(message, std::forward<Args>(args)...);
}
void require(bool holds, const std::string& message);

// Writes to standard output and flushes. Throws Error if that fails (redirection to a full disk).
void print_output(std::string_view text);
// One line on standard error: `ridgepoint: message`. A terminal gets it in lines that fit.
void print_error(std::string_view message);
// The same, above a table that is growing on the terminal.
void print_warning(std::string_view message);
// Who speaks in these messages, as "rank 1"; nobody by name unless this is called.
void name_speaker(std::string name);

}  // namespace ridgepoint::cli
