// The commands of the program, described by its own options, and run within this process.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/application.h"
#include "cli/descriptions/description.h"
#include "module.h"

namespace ridgepoint::python {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

py::dict described(const cli::OptionDescription& option) {
  return py::dict("names"_a = option.names, "value"_a = option.value, "value_is_optional"_a = option.value_is_optional,
                  "is_repeated"_a = option.is_repeated, "takes_file"_a = option.takes_file(), "help"_a = option.help,
                  "group"_a = option.group, "choices"_a = option.choices.names,
                  "takes_list"_a = option.choices.takes_list);
}

py::list described_commands() {
  py::list commands;
  for (const cli::CommandDescription& command : cli::describe(cli::all_commands())) {
    py::list options;
    for (const cli::OptionDescription& option : command.options) options.append(described(option));
    commands.append(py::dict("name"_a = command.name, "summary"_a = command.summary, "examples"_a = command.examples,
                             "notes"_a = command.notes, "options"_a = options));
  }
  return commands;
}

// Looks for signals that Python has noted, such as Ctrl-C, where the engine asks whether it should stop. Python runs
// their handlers on its main thread only.
class Signals {
 public:
  bool ask() {
    if (stops_) return true;
    const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
    if (now - last_ms_.load() < kBetweenMs) return false;
    last_ms_ = now;
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) keep_exception();
    return stops_;
  }

  // Of Python, in flight: ends the command at its next check. What comes first is kept. The GIL is held.
  void keep_exception() {
    py::error_already_set raised;
    if (!stops_) raised_ = std::move(raised);
    stops_ = true;
  }

  // With what was printed until then: the rows that were finished.
  void raise_kept(const std::string& output) {
    if (!raised_) return;
    raised_->value().attr("printed") = output;
    throw std::move(*raised_);
  }

 private:
  static constexpr std::int64_t kBetweenMs = 20;

  std::atomic<bool> stops_{false};
  std::atomic<std::int64_t> last_ms_{0};
  std::optional<py::error_already_set> raised_;
};

// {exit code, problem, output, messages} of a command line. `progress` gets lines; None: nobody does.
py::tuple run_command(const std::vector<std::string>& words, const py::object& progress) {
  Signals signals;
  cli::Host host;
  host.is_interrupted = [&] { return signals.ask(); };
  if (!progress.is_none()) {
    host.show_progress = [&](const std::string& line) {
      const py::gil_scoped_acquire acquired;
      try {
        progress(line);
      } catch (py::error_already_set& raised) {
        raised.restore();
        signals.keep_exception();
      }
    };
  }
  cli::CommandEnd end;
  {
    const py::gil_scoped_release released;
    end = cli::run_within(host, words);
  }
  signals.raise_kept(host.output);
  return py::make_tuple(end.exit_code, end.problem, host.output, host.messages);
}

}  // namespace

void add_commands(py::module_& module) {
  module.def("commands", described_commands, "The commands and their options.");
  module.def("run", run_command, "words"_a, "progress"_a = py::none(),
             "Runs a command line: (exit code, problem, output, messages).");
}

}  // namespace ridgepoint::python
