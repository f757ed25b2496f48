#include "troupe/cli/plan/program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <atomic>
#include <exception>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <sstream>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/base/status_line.hpp"
#include "troupe/cli/plan/build_facts.hpp"
#include "troupe/cli/plan/help.hpp"
#include "troupe/cli/plan/suggestions.hpp"
#include "troupe/cli/plan/terminal.hpp"

namespace troupe::cli {

namespace {

/// RLIM_INFINITY is the largest number.
rlim_t limit_of(__rlimit_resource_t what) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(what, &limit);
  return limit.rlim_cur;
}

/// An error's text, with the limit of open files if it is about too many of
/// them.
std::string with_limit(std::string text) {
  if (text.find(std::strerror(EMFILE)) != std::string::npos)
    text += fmt::format(" (ulimit -n is {})", limit_of(RLIMIT_NOFILE));
  return text;
}

argument_list names_of_commands(const CLI::App& app) {
  argument_list names;
  for (const auto* command : app.get_subcommands({}))
    names.push_back(command->get_name());
  return names;
}

argument_list flags_of(const CLI::App& command) {
  argument_list flags;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames())
      flags.push_back("--" + name);
  return flags;
}

/// Throws `invalid_argument` for a flag before the command that the program
/// does not have.
void require_known_flag(const std::string& flag, const CLI::App& app) {
  const auto name = flag.substr(0, flag.find('='));
  if (!name.starts_with("--help") && !app.get_option_no_throw(name))
    fail(error_code::invalid_argument, "no flag {}{} See troupe --help",
         printable(name), suggestion(name, flags_of(app)));
}

void require_known_command(const argument_list& arguments,
                           const CLI::App& app) {
  if (arguments.empty())
    return;
  if (arguments.front().starts_with('-'))
    return require_known_flag(arguments.front(), app);
  const auto commands = names_of_commands(app);
  if (std::ranges::find(commands, arguments.front()) == commands.end())
    fail(error_code::invalid_argument,
         "unknown command '{}'{} The commands are {}",
         printable(arguments.front()), suggestion(arguments.front(), commands),
         fmt::join(commands, ", "));
}

/// Refuses a flag without its value: CLI11 would take the next argument as its
/// value, even a flag.
void require_flag_values(const argument_list& arguments, const CLI::App& app) {
  if (arguments.empty() || arguments.front().starts_with('-'))
    return;
  const auto& command = *app.get_subcommand(arguments.front());
  const auto option_of = [&](const std::string& argument) {
    return argument.starts_with('-') && argument != "--"
             ? command.get_option_no_throw(
               argument.substr(0, argument.find('=')))
             : nullptr;
  };
  for (std::size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    const auto* option = option_of(arguments[i]);
    if (option == nullptr || option->get_items_expected_min() == 0)
      continue;
    if (arguments[i].ends_with('='))
      fail(error_code::invalid_argument,
           "{} is empty; give a value, or omit the flag",
           printable(arguments[i]));
    if (i + 1 < arguments.size() && option_of(arguments[i + 1]) != nullptr
        && arguments[i].find('=') == std::string::npos)
      fail(error_code::invalid_argument, "{} needs a value, but {} follows",
           printable(arguments[i]), printable(arguments[i + 1]));
  }
}

struct chosen {
  const CLI::App* command;
  std::string full_name;  // without "troupe"; empty if there is no command
};

/// The innermost command that was parsed.
chosen chosen_command(const CLI::App& app) {
  chosen found{&app, {}};
  while (!found.command->get_subcommands().empty()) {
    found.command = found.command->get_subcommands().front();
    found.full_name +=
      (found.full_name.empty() ? "" : " ") + found.command->get_name();
  }
  return found;
}

/// Reports arguments that the command does not know: the first flag among them,
/// rather than a value before it.
[[noreturn]] void refuse_extras(const CLI::App& app) {
  const auto extras = app.remaining(/*recurse=*/true);
  const auto [command, full_name] = chosen_command(app);
  const auto flag = std::ranges::find_if(
    extras, [](const std::string& text) { return text.starts_with('-'); });
  if (flag == extras.end())
    fail(error_code::invalid_argument,
         "{} does not accept '{}' there; see troupe {} --help", full_name,
         printable(extras.empty() ? "" : extras.front()), full_name);
  const auto name = flag->substr(0, flag->find('='));
  fail(error_code::invalid_argument, "{} has no flag {}{} See troupe {} --help",
       full_name, printable(name), suggested_flag(name, flags_of(*command)),
       full_name);
}

/// Whether `troupe launch` has no --: the flags of the launched command would
/// be taken for its own.
bool lacks_dashes(const argument_list& arguments) {
  return !arguments.empty() && arguments.front() == "launch"
         && std::ranges::find(arguments, "--") == arguments.end();
}

/// Reports arguments that the parser refuses.
[[noreturn]] void refuse(const CLI::ParseError& reason, const CLI::App& app,
                         const argument_list& arguments) {
  constexpr std::string_view dashes =
    "give the command of each process after --, as in troupe launch "
    "--processes 2 -- train ...";
  const bool lacks = lacks_dashes(arguments);
  const bool is_extra =
    dynamic_cast<const CLI::ExtrasError*>(&reason) != nullptr;
  if (lacks && is_extra)
    fail(error_code::invalid_argument, "{}", dashes);
  if (is_extra)
    refuse_extras(app);
  std::string text = reason.what();
  if (text == "A subcommand is required")
    text = "a command is missing";
  else if (dynamic_cast<const CLI::RequiredError*>(&reason) != nullptr)
    text = missing_text(*chosen_command(app).command) + " is missing";
  if (lacks)
    text += fmt::format("; {}", dashes);
  const auto command = chosen_command(app).full_name;
  fail(error_code::invalid_argument, "{}{} troupe{}{} --help", text,
       text.ends_with('?') ? " See" : "; see", command.empty() ? "" : " ",
       command);
}

}  // namespace

std::unique_ptr<CLI::App> make_app() {
  auto app = std::make_unique<CLI::App>(
    "troupe: pipeline-parallel training with actors", "troupe");
  app->require_subcommand(1);
  // Subcommands inherit this. A flag that takes a list still keeps all its
  // values.
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app->set_version_flag("--version", version_text());
  set_help_layout(*app);
  return app;
}

int run_command(CLI::App& app, argument_list arguments,
                const argument_expander& expand) {
  require_known_command(arguments, app);
  if (const auto help = requested_help(app, arguments)) {
    print_now(*help);
    return 0;
  }
  if (expand)
    arguments = expand(std::move(arguments));
  require_flag_values(arguments, app);
  argument_list reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForVersion& version) {
    print_now(std::string{version.what()} + '\n');
  } catch (const CLI::ParseError& reason) {
    refuse(reason, app, arguments);
  }
  print_now("");
  return 0;
}

int complain(const char* kind, const char* what, int code) {
  const auto text = fmt::format("troupe: {}{}\n", kind, with_limit(what));
  clear_status_line();
  std::fputs(plain_text(text).c_str(), stderr);
  return code;
}

int report_errors(const std::function<int()>& work) {
  try {
    return work();
  } catch (const reader_left&) {
    return 128 + SIGPIPE;
  } catch (const error& reason) {
    return complain("error: ", reason.what(), exit_code(reason.code()));
  } catch (const std::filesystem::filesystem_error& reason) {
    const auto text = fmt::format("{}: {}", printable(reason.path1().string()),
                                  reason.code().message());
    return complain("error: ", text.c_str(), 1);
  } catch (const std::bad_alloc&) {
    return complain(
      "error: ",
      "out of memory: the machine's, or this process's limit (ulimit -v)", 1);
  } catch (const std::exception& reason) {
    return complain("error: ", reason.what(), 1);
  } catch (...) {
    return complain("error: ", "an exception of unknown type", 1);
  }
}

namespace {

class plain_sink final : public spdlog::sinks::ansicolor_stderr_sink_mt {
 public:
  plain_sink()
    : spdlog::sinks::ansicolor_stderr_sink_mt(shows_colours()
                                                ? spdlog::color_mode::automatic
                                                : spdlog::color_mode::never) {}
  void log(const spdlog::details::log_msg& message) override {
    const auto text =
      plain_text({message.payload.data(), message.payload.size()});
    auto plain = message;
    plain.payload = text;
    clear_status_line();
    spdlog::sinks::ansicolor_stderr_sink_mt::log(plain);
  }
};

}  // namespace

void open_log() {
  spdlog::set_default_logger(
    std::make_shared<spdlog::logger>("troupe", std::make_shared<plain_sink>()));
  spdlog::set_pattern("troupe: %^%l%$: %v");
}

namespace {

error_reporter report_uncaught = nullptr;  // set before any thread starts

int rethrow_current() {
  if (const auto uncaught = std::current_exception())
    std::rethrow_exception(uncaught);
  throw std::logic_error("the process was ended by its own code");
}

/// Reports the uncaught exception, and ends the process. The reporter itself
/// throws if there is no memory for its text.
[[noreturn]] void end_uncaught() {
  static std::atomic_flag reported;
  while (reported.test_and_set())
    ::pause();  // another thread ends the process
  try {
    report_uncaught(rethrow_current);
  } catch (...) {
    constexpr std::string_view text = "troupe: error: out of memory\n";
    [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, text.data(), text.size());
  }
  ::_exit(1);
}

/// A run with many files or processes needs more open files than the soft
/// limit, usually 1,024.
void allow_most_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void prepare_process(error_reporter report) {
  // `open` returns the lowest free descriptor: the closed one.
  for (int each = STDIN_FILENO; each <= STDERR_FILENO; ++each)
    if (::fcntl(each, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", each == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  allow_most_files();
  report_uncaught = report;
  std::set_terminate(end_uncaught);
}

namespace {

// Measured: a CUDA build of LibTorch 2.11 needs 445,000 KiB to load.
constexpr rlim_t least_kib = 512 * 1024;
// Enough for an endpoint and links to a few other processes.
constexpr int least_files = 60;

/// Whether so many more files can be opened below the limit.
bool has_room_for(int files, rlim_t limit) {
  for (rlim_t each = 0; each < limit && files > 0; ++each)
    if (::fcntl(static_cast<int>(each), F_GETFD) < 0)
      --files;
  return files == 0;
}

}  // namespace

void require_room_for_runtime() {
  const auto kib = limit_of(RLIMIT_AS) / 1024;
  if (kib < least_kib)
    fail(error_code::device,
         "the address space of this process is limited to {} KiB (ulimit -v), "
         "but loading LibTorch needs up to {} KiB; raise the limit",
         kib, least_kib);
  const auto files = limit_of(RLIMIT_NOFILE);
  if (!has_room_for(least_files, files))
    fail(error_code::device,
         "too many open files (ulimit -n is {}): this command may need {} "
         "more; raise the limit",
         files, least_files);
}

void become_runtime(argument_list arguments) {
  require_room_for_runtime();
  const std::string program = program_folder() + "/troupe-runtime";
  arguments.insert(arguments.begin(), "troupe");
  std::vector<char*> argv;
  for (auto& each : arguments)
    argv.push_back(each.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  const auto reason = errno;
  if (reason == ENOENT)
    fail(error_code::io,
         "{} is missing: this command needs troupe's training program; build "
         "or install the complete project",
         program);
  fail(error_code::io, "{} can't be started: {}", program,
       std::strerror(reason));
}

}  // namespace troupe::cli
