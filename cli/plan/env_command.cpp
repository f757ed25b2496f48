#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/build_facts.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/commands.hpp"
#include "troupe/cli/plan/program.hpp"

namespace troupe::cli {

namespace {

/// The text behind a line's key and separator; empty without such a line.
std::string value_in(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) {
      const auto begin =
        line.find_first_not_of(" \t\"", line.find(separator) + 1);
      const auto end = line.find_last_not_of(" \t\"");
      return begin == std::string::npos ? ""
                                        : line.substr(begin, end + 1 - begin);
    }
  return {};
}

std::string system_text() {
  utsname names{};
  ::uname(&names);
  return fmt::format("{}, {} {}, glibc {}",
                     value_in("/etc/os-release", "PRETTY_NAME", '='),
                     names.sysname, names.release, ::gnu_get_libc_version());
}

std::string processor_text() {
  const auto flags = " " + value_in("/proc/cpuinfo", "flags", ':') + " ";
  std::string instructions;
  for (const auto* each : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"})
    if (flags.find(fmt::format(" {} ", each)) != std::string::npos)
      instructions += fmt::format(" {}", each);
  return fmt::format("{}, {} threads,{}",
                     value_in("/proc/cpuinfo", "model name", ':'),
                     std::thread::hardware_concurrency(),
                     instructions.empty() ? " no AVX2" : instructions);
}

std::string memory_text() {
  return fmt::format("{} in all, {} available",
                     value_in("/proc/meminfo", "MemTotal", ':'),
                     value_in("/proc/meminfo", "MemAvailable", ':'));
}

/// Without the name of the user, which the home folder contains.
std::string without_home(std::string path) {
  const auto* home = std::getenv("HOME");
  if (home != nullptr && *home == '/' && home[1] != '\0'
      && path.starts_with(std::string(home) + "/"))
    path.replace(0, std::string_view(home).size(), "~");
  return path;
}

/// Models of GPUs, without their serial numbers.
std::string devices_text() {
  std::ifstream version("/proc/driver/nvidia/version");
  std::string driver;
  if (!std::getline(version, driver))
    return "none: no NVIDIA driver";
  std::vector<std::string> models;
  std::error_code trouble;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", trouble))
    models.push_back(
      value_in((entry.path() / "information").c_str(), "Model", ':'));
  return fmt::format("{}; {}", fmt::join(models, ", "), driver);
}

/// What a program prints, on stdout and stderr together, and whether it ends
/// with code 0.
std::pair<std::string, bool> output_of(const std::string& program,
                                       const char* argument) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return {"no pipe", false};
  const auto child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::execl(program.c_str(), program.c_str(), argument, nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return {text, child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

std::string runtime_text() {
  const auto program = program_folder() + "/troupe-runtime";
  if (::access(program.c_str(), X_OK) != 0)
    return "is missing";
  const auto [text, is_fine] = output_of(program, "--version");
  if (is_fine)
    return "starts, LibTorch loads";
  const auto line = text.substr(0, text.find('\n'));
  return "does not start: " + without_home(line);
}

/// Values only of what can hold no secret and no path.
std::string variables_text() {
  constexpr std::array prefixes{
    "TROUPE_", "OMP_",  "MKL_",      "ONEDNN_",    "ATEN_",
    "CUDA_",   "NCCL_", "Torch_DIR", "LD_PRELOAD", "LD_LIBRARY_PATH"};
  std::vector<std::string> found;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable(*each);
    const auto equals = std::min(variable.find('='), variable.size());
    const auto name = variable.substr(0, equals);
    const auto value = variable.substr(std::min(equals + 1, variable.size()));
    const bool is_wanted = std::ranges::any_of(
      prefixes, [&](const char* prefix) { return name.starts_with(prefix); });
    if (!is_wanted)
      continue;
    const bool is_number =
      !value.empty() && value.size() < 10
      && value.find_first_not_of("0123456789,") == std::string_view::npos;
    found.push_back(is_number ? std::string(variable)
                              : fmt::format("{} (set)", name));
  }
  std::ranges::sort(found);
  return found.empty() ? "nothing of interest"
                       : fmt::format("{}", fmt::join(found, ", "));
}

std::string host_text() {
  utsname names{};
  ::uname(&names);
  return names.nodename;
}

std::string report(bool with_host) {
  std::string text = fmt::format("{:<11}{}\n", "troupe", version_text());
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<11}{}\n", name, printable(value, 1000));
  };
  add("system", system_text());
  add("processor", processor_text());
  add("memory", memory_text());
  add("GPUs", devices_text());
  add("program", without_home(program_folder()));
  add("runtime", runtime_text());
  add("variables", variables_text());
  if (with_host)
    add("host", host_text());
  return text;
}

}  // namespace

void add_env_command(CLI::App& app) {
  auto* command = app.add_subcommand("env", "print what a bug report needs");
  const auto with_host = std::make_shared<bool>(false);
  command->add_flag("--host", *with_host, "with the name of this machine");
  command->footer(
    "Versions, system, processor, memory, GPUs, whether LibTorch loads, and "
    "which\nvariables are set. Values of variables are printed only if they "
    "are numbers;\nno tokens, no name of the machine or the user.\n\n"
    "Example:\n  troupe env");
  command->callback([with_host] { print_now(report(*with_host)); });
}

}  // namespace troupe::cli
