#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "troupe/cli/plan/choices.hpp"

namespace troupe::cli {

/// Validators of flags. CLI11's own ones print the limits of a double digit by
/// digit, and accept nan and overflows.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = INT64_MAX);
CLI::Validator number(double least,
                      double most = std::numeric_limits<double>::infinity());
CLI::Validator number_above(
  double limit, double most = std::numeric_limits<double>::infinity());

/// Validates one of some words, and suggests the one that is similar to
/// another.
CLI::Validator one_of(const std::vector<std::string>& words);

/// Declares a flag with a value, such as "--costs FILE", or an argument, such
/// as "path FILE". The second word is the name of the value in --help; without
/// it, --help shows the value's type.
template <class Value>
CLI::Option* add_value(CLI::App& command, const std::string& name, Value& value,
                       const std::string& help,
                       const CLI::Validator& check = {}) {
  const auto space = name.find(' ');
  auto* option =
    command.add_option(name.substr(0, space), value, help)->check(check);
  return space == name.npos ? option
                            : option->type_name(name.substr(space + 1));
}

/// Declares a flag that takes one of some words and sets the value of that
/// word. The default is the current value's word.
template <class Value>
CLI::Option* add_choice(CLI::App& command, const std::string& name,
                        Value& value, const choices<Value>& words,
                        const std::string& help) {
  using choice = typename choices<Value>::value_type;
  const auto space = name.find(' ');
  std::vector<std::string> names;
  for (const auto& [word, meaning] : words)
    names.push_back(word);
  const auto usual = std::ranges::find(words, value, &choice::second);
  auto* option =
    command
      .add_option_function<std::string>(
        name.substr(0, space),
        [&value, words](const std::string& word) {
          value = std::ranges::find(words, word, &choice::first)->second;
        },
        help)
      ->check(one_of(names))
      ->default_str(usual == words.end() ? std::string{} : usual->first);
  return space == name.npos ? option
                            : option->type_name(name.substr(space + 1));
}

/// Makes flags of the app and its commands refuse an empty value, except for
/// flags whose text may be empty.
void require_values(CLI::App& app);

}  // namespace troupe::cli
