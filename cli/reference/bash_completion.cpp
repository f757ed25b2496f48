#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "troupe/cli/reference/described_command.hpp"

namespace troupe::cli {

namespace {

constexpr auto bash_header =
  R"(# Completes troupe's commands, flags and values in bash; made by
#   troupe completion bash
# Source it, or save it as ~/.local/share/bash-completion/completions/troupe
)";

constexpr auto bash_completer = R"(_troupe() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  if [[ $word == = ]]; then
    word=""
  elif [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  local command="" words="" files="" i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command/${{COMP_WORDS[i]}}" in
      */--) command="" ;;
      {}) command+=${{command:+_}}${{COMP_WORDS[i]}} ;;
    esac
  done
  "_troupe_${{command:-program}}" "$before" "$word"
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if [[ -n $files ]]; then
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$word")
    compopt -o filenames 2>/dev/null || true
  fi
}}
complete -F _troupe troupe
)";

std::string bash_identifier(std::string path) {
  std::ranges::replace(path, ' ', '_');
  return path.empty() ? "program" : path;
}

std::string bash_assignments(const described_value& value) {
  std::string text;
  if (!value.words.empty())
    text += fmt::format("words=\"{}\" ", fmt::join(value.words, " "));
  if (value.is_file)
    text += "files=1 ";
  return text.empty() ? ": " : text;
}

/// Sets the shell's variables `words` and `files` for the word behind $1, which
/// begins with $2.
std::string bash_function(const described_command& command) {
  auto text = fmt::format("_troupe_{}() {{\n  case $1 in\n",
                          bash_identifier(command.path));
  std::map<std::string, std::vector<std::string>> flags_of_values;
  std::vector<std::string> flags;
  for (const auto& flag : command.flags) {
    flags.insert(flags.end(), flag.names.begin(), flag.names.end());
    auto& alike = flags_of_values[bash_assignments(flag.value)];
    if (flag.takes_value)
      alike.insert(alike.end(), flag.names.begin(), flag.names.end());
  }
  for (const auto& [value, names] : flags_of_values)
    if (!names.empty())
      text += fmt::format("    {}) {};;\n", fmt::join(names, " | "), value);
  auto argument = command.argument;
  for (const auto& each : command.commands)
    argument.words.push_back(each.name);
  const auto all = fmt::format("words=\"{}\"", fmt::join(flags, " "));
  if (command.takes_arguments || !command.commands.empty())
    text += fmt::format("    *) if [[ $2 == -* ]]; then {}; else {}; fi ;;\n",
                        all, bash_assignments(argument));
  else
    text += fmt::format("    *) {} ;;\n", all);
  return text + "  esac\n}\n";
}

void append_bash(const described_command& command, const std::string& parent,
                 std::string& functions, std::vector<std::string>& paths) {
  functions += bash_function(command);
  for (const auto& each : command.commands) {
    paths.push_back(parent + '/' + each.name);
    append_bash(each, bash_identifier(each.path), functions, paths);
  }
}

}  // namespace

std::string bash_completion(const described_command& program) {
  std::string functions;
  std::vector<std::string> paths;
  append_bash(program, "", functions, paths);
  return bash_header + functions
         + fmt::format(bash_completer, fmt::join(paths, " | "));
}

}  // namespace troupe::cli
