#include "troupe/cli/reference/described_command.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <sstream>

namespace troupe::cli {

namespace {

constexpr std::size_t longest_text = 70;

/// The first sentence or line of a description, cut at a word.
std::string one_line(const std::string& description) {
  auto text = description.substr(0, description.find('\n'));
  text.resize(std::min(text.find("; "), text.size()));
  if (text.ends_with(':'))
    text.pop_back();
  if (text.size() > longest_text) {
    text.resize(std::min(text.rfind(' ', longest_text - 4), text.size()));
    text += " ...";
  }
  return text;
}

/// The words of a type such as "TEXT:{a,b}".
std::vector<std::string> words_of_type(const std::string& type) {
  std::vector<std::string> words;
  const auto begin = type.find('{'), end = type.find('}');
  if (begin == type.npos || end == type.npos)
    return words;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(list, word, ',');)
    words.push_back(word);
  return words;
}

bool names_files(const std::string& type) {
  const auto value = type.substr(0, type.find(':'));
  return std::ranges::any_of(
    std::vector<std::string>{"FILE", "DIR", "PATH", "TEXT"},
    [&](const std::string& kind) { return value.find(kind) != value.npos; });
}

described_value value_of(const CLI::Option& option, const std::string& name,
                         const value_words& words) {
  const auto type = option.get_type_name();
  if (const auto row = words.find(name); row != words.end())
    return {row->second, names_files(type)};
  auto listed = words_of_type(type);
  const bool is_file = listed.empty() && names_files(type);
  return {std::move(listed), is_file};
}

described_flag flag_of(const CLI::Option& option, const value_words& words) {
  described_flag flag;
  for (const auto& name : option.get_snames())
    flag.names.push_back("-" + name);
  for (const auto& name : option.get_lnames())
    flag.names.push_back("--" + name);
  flag.text = one_line(option.get_description());
  flag.takes_value = option.get_items_expected_max() > 0;
  flag.is_repeatable = option.get_items_expected_max() > 1;
  flag.value = value_of(option, flag.names.back(), words);
  return flag;
}

described_command describe(const CLI::App& app, const std::string& parent,
                           const value_words& words) {
  described_command command;
  command.name = app.get_name();
  command.path = parent.empty() ? command.name : parent + ' ' + command.name;
  command.text = one_line(app.get_description());
  for (const auto* option : app.get_options()) {
    if (option->get_group().empty())
      continue;
    if (option->get_positional()) {
      command.takes_arguments = true;
      command.argument = value_of(*option, option->get_name(true), words);
    } else {
      command.flags.push_back(flag_of(*option, words));
    }
  }
  command.flags.push_back({{"--help-all"}, "all flags"});
  for (const auto* each : app.get_subcommands({}))
    command.commands.push_back(describe(*each, command.path, words));
  return command;
}

}  // namespace

described_command describe(const CLI::App& app, const value_words& words) {
  described_command program;
  program.name = app.get_name();
  program.text = app.get_description();
  program.flags = {
    {{"-h", "--help"}, "help"},
    {{"--version"}, "print the version"},
    {{"--cmake-dir"}, "print the folder for cmake -Dtroupe_DIR"}};
  std::vector<std::string> names;
  for (const auto* each : app.get_subcommands({})) {
    program.commands.push_back(describe(*each, "", words));
    names.push_back(each->get_name());
  }
  for (auto& each : program.commands)
    if (each.name == "help") {
      each.takes_arguments = true;
      each.argument.words = names;
    }
  return program;
}

std::string completion_script(const std::string& shell, const CLI::App& app,
                              const value_words& words) {
  const auto program = describe(app, words);
  return shell == "bash"  ? bash_completion(program)
         : shell == "zsh" ? zsh_completion(program)
                          : fish_completion(program);
}

}  // namespace troupe::cli
