#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "troupe/cli/reference/described_command.hpp"

namespace troupe::cli {

namespace {

constexpr auto zsh_header = R"(#compdef troupe
# Completes troupe's commands, flags and values in zsh; made by
#   troupe completion zsh
# Save it as _troupe in a folder of $fpath.

_troupe_words_or_files() {
  compadd -- "$@"
  _files
}

)";

/// Within single quotes, with a backslash before each of `special`.
std::string zsh_quoted(const std::string& text, const std::string& special) {
  std::string result;
  for (const char each : text)
    if (each == '\'')
      result += "'\\''";
    else if (special.find(each) != special.npos)
      result += std::string("\\") + each;
    else
      result += each;
  return result;
}

std::string zsh_action(const described_value& value) {
  const auto words = fmt::format("{}", fmt::join(value.words, " "));
  return words.empty()   ? value.is_file ? "_files" : " "
         : value.is_file ? " _troupe_words_or_files " + words
                         : "(" + words + ")";
}

std::string zsh_function_name(std::string path) {
  std::ranges::replace(path, ' ', '_');
  return path.empty() ? "_troupe" : "_troupe_" + path;
}

std::string zsh_specification(const described_flag& flag,
                              const std::string& name) {
  const auto text = zsh_quoted(flag.text, "[]\\");
  const auto equals = flag.takes_value && name.starts_with("--") ? "=" : "";
  return fmt::format(
    "    '{}{}{}[{}]{}'", flag.is_repeatable ? "*" : "", name, equals, text,
    flag.takes_value ? ":value:" + zsh_action(flag.value) : "");
}

/// The function of a command without commands below it.
std::string zsh_leaf_function(const described_command& command) {
  std::vector<std::string> all;
  for (const auto& flag : command.flags)
    for (const auto& name : flag.names)
      all.push_back(zsh_specification(flag, name));
  if (command.takes_arguments)
    all.push_back(
      fmt::format("    '*:argument:{}'", zsh_action(command.argument)));
  return fmt::format("{}() {{\n  _arguments \\\n{}\n}}\n\n",
                     zsh_function_name(command.path), fmt::join(all, " \\\n"));
}

std::string zsh_function(const described_command& command) {
  if (command.commands.empty())
    return zsh_leaf_function(command);
  std::string text;
  for (const auto& each : command.commands)
    text += zsh_function(each);
  const auto name = zsh_function_name(command.path);
  text += name + "() {\n  local -a commands=(\n";
  for (const auto& each : command.commands)
    text +=
      fmt::format("    '{}:{}'\n", each.name, zsh_quoted(each.text, ":\\"));
  text += "  )\n  local state line\n  _arguments -C \\\n";
  for (const auto& flag : command.flags)
    for (const auto& each : flag.names)
      text += zsh_specification(flag, each) + " \\\n";
  return text
         + fmt::format(
           "    '1:command:->command' '*::argument:->argument'\n"
           "  case $state in\n"
           "    command) _describe command commands ;;\n"
           "    argument)\n"
           "      (( $+functions[{0}_$words[1]] )) && "
           "{0}_$words[1]\n"
           "      ;;\n"
           "  esac\n"
           "}}\n\n",
           name);
}

}  // namespace

std::string zsh_completion(const described_command& program) {
  return zsh_header + zsh_function(program) + "_troupe \"$@\"\n";
}

}  // namespace troupe::cli
