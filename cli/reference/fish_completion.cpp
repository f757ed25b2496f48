#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "troupe/cli/reference/described_command.hpp"

namespace troupe::cli {

namespace {

constexpr auto fish_header =
  R"(# Completes troupe's commands, flags and values in fish; made by
#   troupe completion fish
# Save it as ~/.config/fish/completions/troupe.fish
complete -c troupe -f
)";

/// Within single quotes.
std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char each : text)
    result += each == '\'' || each == '\\' ? std::string("\\") + each
                                           : std::string(1, each);
  return result + "'";
}

/// Whether all commands of a path were typed.
std::string fish_condition(const std::string& path) {
  if (path.empty())
    return "__fish_use_subcommand";
  std::istringstream words(path);
  std::string text;
  for (std::string word; words >> word;)
    text +=
      (text.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  return text;
}

std::string fish_value(const described_value& value) {
  std::string text = value.is_file ? " -F" : "";
  if (!value.words.empty())
    text += fmt::format(" -a '{}'", fmt::join(value.words, " "));
  return text;
}

void append_fish(const described_command& command, std::string& script) {
  const auto begin = fmt::format("complete -c troupe -n {}",
                                 fish_quoted(fish_condition(command.path)));
  for (const auto& each : command.commands) {
    script +=
      fmt::format("{} -a {} -d {}\n", begin, each.name, fish_quoted(each.text));
    append_fish(each, script);
  }
  if (command.takes_arguments)
    script += begin + fish_value(command.argument) + "\n";
  for (const auto& flag : command.flags) {
    script += begin;
    for (const auto& name : flag.names)
      script += name.starts_with("--") ? " -l " + name.substr(2)
                                       : " -s " + name.substr(1);
    if (flag.takes_value)
      script += " -r" + fish_value(flag.value);
    script += " -d " + fish_quoted(flag.text) + "\n";
  }
}

}  // namespace

std::string fish_completion(const described_command& program) {
  std::string script = fish_header;
  append_fish(program, script);
  return script;
}

}  // namespace troupe::cli
