#include "cli/application.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <new>
#include <system_error>

#include "cli/descriptions/command.h"
#include "cli/descriptions/description.h"
#include "cli/options/choices.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/messages.h"
#include "cli/terminal/standard_streams.h"
#include "cli/terminal/width.h"
#include "core/build_info.h"
#include "core/text/nearest.h"
#include "core/warning.h"
#include "record/columns.h"
#include "ridgepoint/core/error.h"
#include "tables/table/wrap.h"

namespace ridgepoint::cli {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

using tables::wrap;

// An argument that stands without a name in front: FILE.
bool is_positional(const CLI::Option& option) { return option.get_lnames().empty(); }

// The left column of an option: "--batch N".
std::string heading(const CLI::Option& option) {
  if (is_positional(option)) return option.get_name();
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  names += "--" + option.get_lnames().front();
  const std::string type = option.get_items_expected_max() > 0 ? option.get_type_name() : "";
  if (type.empty()) return names;
  return names + (can_be_left_out(option) ? fmt::format(" [{}]", type) : " " + type);
}

std::vector<std::string> groups_of(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options()) {
    const std::string group = option->get_group();
    if (!group.empty() && std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  // CLI11 registers --help first; the help lists it last.
  std::rotate(groups.begin(), groups.begin() + 1, groups.end());
  return groups;
}

// "NAME", "[NAME]" if it may be left out, "FILES..." if it may be several.
std::string usage_of(const CLI::Option& positional) {
  const std::string name = positional.get_name() + (positional.get_items_expected_max() > 1 ? "..." : "");
  return can_be_left_out(positional) ? "[" + name + "]" : name;
}

// Keeps the value of each option beside its name, and a quoted value in one piece: the spaces there do not break.
std::string with_values_kept(std::string_view line) {
  std::string text;
  bool is_name = false, is_quoted = false;
  for (std::size_t at = 0; at < line.size();) {
    const std::string_view word = line.substr(at, line.find(' ', at) - at);
    const bool begins_option = !is_quoted && word.starts_with("--");
    if (at > 0) text += is_quoted || (is_name && !begins_option) ? tables::kNoBreak : " ";
    text += word;
    is_name = begins_option;
    if (std::ranges::count(word, '"') % 2 == 1) is_quoted = !is_quoted;
    at += word.size() + 1;
  }
  return text;
}

// Breaks a command line that is too long as a shell script does, with a backslash.
std::string example(std::string_view line, std::size_t width) {
  std::string text = wrap(with_values_kept(line), width - 2, 6);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.insert(at, " \\");
  return fmt::format("  {}\n", text);
}

// The help texts, made from the commands and the options that they register. No line is longer than `width` columns.
std::string program_help(const Commands& commands, std::size_t width) {
  std::string text =
      wrap(
          fmt::format("Ridgepoint {} shows where the time and the memory of a Transformer training step go: of its own "
                      "engine, and of PyTorch in snapshot, plan --as torch and bench --peers.",
                      version()),
          width) +
      "\n\nUsage: ridgepoint COMMAND [OPTIONS]\n\nCommands:\n";
  std::size_t column = 0;
  for (const auto& command : commands) column = std::max(column, command->name().size());
  for (const auto& command : commands) {
    text += fmt::format("  {:<{}}  {}\n", command->name(), column, wrap(command->summary(), width, column + 4));
  }
  text += "\n  COMMAND --help  explain a command\n  --version       the same as version\n\nExamples:\n";
  for (const auto& command : commands) text += example(tables::lines_of(command->examples()).front(), width);
  return text;
}

std::string command_help(const Command& command, const CLI::App& app, std::size_t width) {
  std::string usage = app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (is_positional(*option)) usage += " " + usage_of(*option);
  }
  std::string text = wrap(fmt::format("{}: {}", app.get_name(), command.summary()), width) +
                     fmt::format("\n\nUsage: {} [OPTIONS]\n", usage);
  std::size_t column = 0;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) column = std::max(column, heading(*option).size());
  }
  for (const std::string& group : groups_of(app)) {
    text += fmt::format("\n{}:\n", group);
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() != group) continue;
      text +=
          fmt::format("  {:<{}}  {}\n", heading(*option), column, wrap(option->get_description(), width, column + 4));
    }
  }
  text += "\nExamples:\n";
  for (const std::string_view line : tables::lines_of(command.examples())) text += example(line, width);
  if (!command.notes().empty()) text += "\n" + wrap(command.notes(), width) + "\n";
  return text;
}

std::unique_ptr<Command> command_named(std::string_view word) {
  std::vector<std::string_view> names;
  for (const MakeCommand make : command_makers()) {
    std::unique_ptr<Command> command = make();
    if (command->name() == word) return command;
    names.push_back(command->name());
  }
  names.insert(names.end(), {"--help", "--version"});
  refuse("unknown {} '{}'{}", word.starts_with('-') ? "option" : "command", word, hint(word, names));
}

bool has_option(const CLI::App& app, const std::string& name) {
  return app.get_option_no_throw("--" + name) != nullptr;
}

// An option under another name, such as --batch_size or --seq-len, by the one that the command has.
std::string with_usual_name(const std::string& argument, const CLI::App& app) {
  if (!argument.starts_with("--")) return argument;
  const std::size_t end = std::min(argument.find('='), argument.size());
  std::string name = argument.substr(2, end - 2);
  if (has_option(app, name)) return argument;
  std::ranges::replace(name, '_', '-');
  const std::optional<UsualOption> usual = usual_option(name);
  if (!has_option(app, name) && usual && usual->value.empty()) name = usual->name;
  return has_option(app, name) ? "--" + name + argument.substr(end) : argument;
}

// "; did you mean '--shard parameters'?" of an option that stands for a value here; empty for others.
std::string hint_of_value(std::string_view word, const CLI::App& app) {
  const std::optional<UsualOption> usual = usual_option(word.substr(std::min<std::size_t>(2, word.size())));
  if (!usual || usual->value.empty() || !has_option(app, std::string(usual->name))) return "";
  return fmt::format("; did you mean '--{} {}'?", usual->name, usual->value);
}

// "; plan, bench have it" of an option of other commands; empty for others.
std::string hint_of_command(const std::string& word) {
  std::vector<std::string> having;
  for (const auto& command : all_commands()) {
    CLI::App app;
    prepare(app, *command);
    if (app.get_option_no_throw(word) != nullptr) having.emplace_back(command->name());
  }
  if (having.empty()) return "";
  return fmt::format("; {} {} it;", fmt::join(having, ", "), having.size() == 1 ? "has" : "have");
}

[[noreturn]] void fail_unexpected(const Command& command, const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with("-")) {
    refuse("unexpected argument '{}'; give a value after its option: --name VALUE", argument);
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string word = argument.substr(0, argument.find('='));
  if (const std::string_view why = command.why_not(word); !why.empty()) refuse("{}: {}", word, why);
  std::string likely = hint_of_value(word, app);
  if (likely.empty()) likely = hint_of_command(word);
  if (likely.empty()) likely = hint(word, candidates);
  refuse("unknown option '{}'{}{} '{} --help' lists all options", word, likely,
         likely.ends_with('?') || likely.ends_with(';') ? "" : ";", app.get_name());
}

// Clears a progress line first, so that the warning has a line of its own. Ranks warn of the same: the first one does.
void show_warning(std::string_view message) {
  if (!is_first_rank()) return;
  if (host() == nullptr && ::isatty(STDERR_FILENO) != 0) write_to_standard_error("\r\x1b[K");
  print_warning(message);
}

// Rewords CLI11's "--batch: 1 required N missing" and "Could not convert: --rtol = small".
std::string parse_problem(const CLI::ParseError& error) {
  constexpr std::string_view kConversion = "Could not convert: ";
  const std::string text = error.what();
  std::string line = text.substr(0, text.find('\n'));
  if (line.ends_with(" missing")) {
    const std::string option = line.substr(0, line.find(':'));
    return fmt::format("{} needs a value: {} VALUE", option, option);
  }
  const std::size_t equals = line.find(" = ");
  if (!line.starts_with(kConversion) || equals == std::string::npos) return line;
  return fmt::format("{}: '{}' is not a valid number", line.substr(kConversion.size(), equals - kConversion.size()),
                     line.substr(equals + 3));
}

void check_value(const CLI::Option& option, const std::string& flag, const std::string& value) {
  const std::string type = option.get_type_name();
  if (value.empty()) refuse("{} needs a value: {} {}", flag, flag, type);
  if (value.starts_with("--")) refuse("{} needs a value, and '{}' is an option", flag, value);
  if (type == "FILE" && value == "-") {
    refuse("{}: '-' is not a file name; {}", flag,
           flag == "--output" ? "without --output the result goes to standard output"
                              : "give a name, or ./- for a file called -");
  }
}

// Refuses what CLI11 accepts: an option given twice, an empty value, and another option or "-" as a value.
void check_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    const bool is_positional = option->get_lnames().empty();
    const std::string flag = is_positional ? option->get_name() : "--" + option->get_lnames().front();
    const bool takes_value = option->get_items_expected_min() > 0;
    if (takes_value) {
      for (const std::string& value : values) check_value(*option, flag, value);
    }
    if (values.size() < 2 || may_be_repeated(*option)) continue;
    const bool takes_list = choices_of(*option).takes_list;
    const std::string list = takes_list ? fmt::format(": {} {}", flag, fmt::join(values, ",")) : "";
    refuse("{} is given {} times; give it once{}", flag, values.size(), list);
  }
}

// The options whose files a command writes; it reads those of all others.
constexpr std::string_view kWrittenFiles[] = {"--output",  "--snapshot", "--timeline",     "--trace",
                                              "--picture", "--dump",     "--save-weights", "--save-tokens"};

struct NamedFile {
  std::string flag;
  std::filesystem::path path;
  bool is_written;
};

// The files and folders that options name. --model takes names of models too, which no file has by accident: where one
// has, the model is that of the file.
std::vector<NamedFile> named_files(const CLI::App& app) {
  std::vector<NamedFile> files;
  for (const CLI::Option* option : app.get_options()) {
    const std::string flag = is_positional(*option) ? option->get_name() : "--" + option->get_lnames().back();
    const std::string type = option->get_type_name();
    if (type != "FILE" && type != "FILES" && flag != "--model") continue;
    const bool is_written = std::ranges::find(kWrittenFiles, flag) != std::end(kWrittenFiles);
    for (const std::string& value : option->results()) {
      for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = type == "FILE" ? value.size() : std::min(value.find(',', begin), value.size());
        if (flag != "--model" || value.find_first_of("/.") != std::string::npos)
          files.push_back({flag, value.substr(begin, end - begin), is_written});
        begin = end + 1;
      }
    }
  }
  return files;
}

bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  const auto place = [&](const std::filesystem::path& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  return std::filesystem::equivalent(a, b, ignored) || place(a) == place(b);
}

// Whether `read` names a model by its folder or one of its files, and `written` is another one of them.
bool is_file_of_model(const std::filesystem::path& written, const std::filesystem::path& read) {
  std::error_code ignored;
  const std::string name = written.filename().string();
  const bool is_model_file = name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".index.json");
  if (!is_model_file || !std::filesystem::exists(written, ignored)) return false;
  const std::filesystem::path folder =
      std::filesystem::is_directory(read, ignored) ? read : std::filesystem::absolute(read, ignored).parent_path();
  return std::filesystem::equivalent(std::filesystem::absolute(written, ignored).parent_path(), folder, ignored);
}

// Refuses to write a file that the same command reads, or writes for another option: one of the two would be lost.
void check_written_files(const CLI::App& app) {
  const std::vector<NamedFile> files = named_files(app);
  for (const NamedFile& written : files) {
    for (const NamedFile& other : files) {
      if (!written.is_written || &written == &other) continue;
      const bool is_model = !other.is_written && (other.flag == "--model" || other.flag == "--weights");
      if (!is_same_file(written.path, other.path) && !(is_model && is_file_of_model(written.path, other.path)))
        continue;
      std::error_code ignored;
      if (std::filesystem::is_character_file(written.path, ignored)) continue;  // /dev/stdout, /dev/null
      refuse("{} would replace '{}', which {} {}; give another file", written.flag, other.path.string(), other.flag,
             other.is_written ? "writes too" : "reads");
    }
  }
}

int run_command(Command& command, int argc, const char* const* argv) {
  CLI::App app;
  prepare(app, command);
  try {
    std::vector<std::string> arguments;
    for (int i = 0; i < argc; ++i) arguments.push_back(with_usual_name(argv[i], app));
    std::ranges::reverse(arguments);  // CLI11 expects them in reverse
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    print_output(command_help(command, app, page_width()));
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    throw Error(parse_problem(error), ErrorKind::usage);
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty())
    fail_unexpected(command, app, extras.front());
  check_values(app);
  check_written_files(app);
  if (host() == nullptr) install_interrupt_handler(is_first_rank() ? Rank::first : Rank::other);
  set_warning_handler(show_warning);
  return command.run();
}

int dispatch(int argc, const char* const* argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty()) {
    write_to_standard_error(program_help(all_commands(), page_width()));
    return kExitUsage;
  }
  if (word == "--version") return run_command(*command_named("version"), argc - 2, argv + 2);
  const std::string_view helped = word == "help" && argc > 2 ? argv[2] : "";  // `help bench`
  if (word == "--help" || word == "-h" || (word == "help" && (helped.empty() || helped.starts_with('-')))) {
    print_output(program_help(all_commands(), page_width()));
    return kExitOk;
  }
  if (word == "help") {
    constexpr const char* kHelp = "--help";
    return run_command(*command_named(helped), 1, &kHelp);
  }
  return run_command(*command_named(word), argc - 2, argv + 2);
}

// Runs a command. One that an exception ends has its exit code and its sentence, which is empty otherwise.
CommandEnd end_of(const std::function<int()>& command) {
  try {
    return {command(), {}};
  } catch (const Interrupted& stop) {
    return {interrupt_exit_code(), stop.what()};
  } catch (const Error& error) {
    return {error.kind() == ErrorKind::usage ? kExitUsage : kExitFailure, error.what()};
  } catch (const std::bad_alloc&) {
    return {kExitFailure, "the host is out of memory; choose a smaller model, batch or context"};
  } catch (const std::exception& error) {
    return {kExitFailure, error.what()};
  }
}

// Prints the error of a command that fails. All ranks should have the same usage error, which rank 0 prints.
CommandEnd run_and_report(int argc, const char* const* argv) {
  try {
    CommandEnd end = end_of([&] {
      join_ranks(std::vector<std::string>(argv + 1, argv + argc));
      return dispatch(argc, argv);
    });
    const bool all_have_it = end.exit_code == kExitUsage || end.exit_code == interrupt_exit_code();
    if (!end.problem.empty() && (!all_have_it || is_first_rank())) print_error(end.problem);
    return end;
  } catch (const LostRanks& lost) {
    print_error(lost.message);
    return {kExitFailure, lost.message};
  }
}

}  // namespace

int run_application(int argc, const char* const* argv) {
  const CommandEnd end = run_and_report(argc, argv);
  leave_ranks(end.exit_code, end.exit_code == kExitUsage ? end.problem : "");
  return end.exit_code;
}

CommandEnd run_within(Host& host, const std::vector<std::string>& words) {
  const Hosted hosted(host);
  std::vector<const char*> arguments = {"ridgepoint"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  CommandEnd end = end_of([&] { return dispatch(static_cast<int>(arguments.size()), arguments.data()); });
  set_warning_handler({});
  return end;
}

}  // namespace ridgepoint::cli
