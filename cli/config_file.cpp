#include "troupe/cli/config_file.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/suggestions.hpp"

namespace troupe::cli {

namespace {

std::string where(const std::string& path, const toml::source_region& region) {
  return fmt::format("{}:{}", path, region.begin.line);
}

std::string type_name(const toml::node& value) {
  std::ostringstream name;
  name << value.type();
  return name.str();
}

/// The kinds of flags, by CLI11's name of the type of their variables.
bool is_flag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}
bool has_type(const CLI::Option& option, std::string_view type) {
  return option.get_type_name().starts_with(type);
}
bool takes_whole_number(const CLI::Option& option) {
  return has_type(option, "INT") || has_type(option, "UINT");
}
/// Flags whose help names their value, such as N, STEP, or SIZE for a number
/// with a unit: whether it is a number or text is unknown.
bool takes_named_value(const CLI::Option& option) {
  return has_type(option, "UINT:SIZE")
         || !(is_flag(option) || takes_whole_number(option)
              || has_type(option, "FLOAT") || has_type(option, "TEXT"));
}

bool fits(const CLI::Option& option, const toml::node& value) {
  return is_flag(option)              ? value.is_boolean()
         : takes_named_value(option)  ? value.is_string() || value.is_number()
         : takes_whole_number(option) ? value.is_integer()
         : has_type(option, "FLOAT")  ? value.is_number()
                                      : value.is_string();
}

std::string_view expected(const CLI::Option& option) {
  const auto is_list = option.get_items_expected_max() > 1;
  return is_flag(option) ? "true or false"
         : takes_named_value(option)
           ? is_list ? "a string, a number or a list of them"
                     : "a string or a number"
         : takes_whole_number(option) ? "a whole number"
         : has_type(option, "FLOAT")  ? "a number"
         : is_list                    ? "a string or a list of strings"
                                      : "a string";
}

std::string toml_text(const toml::node& value) {
  if (const auto whole = value.as_integer())
    return fmt::format("{}", whole->get());
  if (const auto number = value.as_floating_point())
    return fmt::format("{}", number->get());
  if (const auto boolean = value.as_boolean())
    return boolean->get() ? "true" : "false";
  return value.as_string()->get();
}

/// Why the flag refuses the value; empty if it accepts it.
std::string complaint(CLI::Option& option, std::string text) {
  try {
    for (int i = 0;; ++i)
      if (auto reason = (*option.get_validator(i))(text); !reason.empty())
        return reason;
  } catch (const CLI::OptionNotFound&) {
    return {};  // there are no more validators
  }
}

/// The value as written on the command line.
std::string checked_text(const std::string& path, const std::string& key,
                         const toml::node& value, CLI::Option& option) {
  if (!fits(option, value))
    fail(error_code::invalid_argument, "{}: {} is of type {}, but must be {}",
         where(path, value.source()), key, type_name(value), expected(option));
  auto text = toml_text(value);
  if (const auto reason = complaint(option, text); !reason.empty())
    fail(error_code::invalid_argument, "{}: {}: {}",
         where(path, value.source()), key, reason);
  return text;
}

std::vector<std::string> allowed_keys(const CLI::App& command) {
  std::vector<std::string> keys;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames())
      if (name != "help" && name != "config" && name != "print-config")
        keys.push_back(name);
  return keys;
}

/// How the refusal of an unknown key goes on.
std::string suggested_key(std::string_view key,
                          const std::vector<std::string>& names) {
  std::vector<std::string> flags;
  for (const auto& name : names)
    flags.push_back("--" + name);
  const auto advice = advice_on_peers_flag(key, flags);
  return advice.empty() ? suggestion(key, names) : "; " + advice + ".";
}

void require_allowed(const std::string& path, const toml::key& key,
                     const std::vector<std::string>& names) {
  if (std::ranges::find(names, key.str()) == names.end())
    fail(error_code::invalid_argument,
         "{}: unknown key '{}'{} Keys are long flags without their dashes; "
         "see --help-all",
         where(path, key.source()), printable(key.str()),
         suggested_key(key.str(), names));
}

std::string text_of(const std::string& path) {
  constexpr std::size_t most_bytes = 1 << 20;
  try {
    input_file file(path);
    if (file.size() > most_bytes)
      file.refuse("is larger than 1 MiB; is it a TOML file?");
    return file.read();
  } catch (const error& reason) {
    fail(reason.code(), "--config {}", reason.what());
  }
}

toml::table parse(const std::string& path) {
  const auto text = text_of(path);
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& reason) {
    fail(error_code::invalid_argument, "{}: {}", where(path, reason.source()),
         reason.description());
  }
}

bool sets_flag(const std::vector<std::string>& arguments,
               const std::string& flag) {
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    return argument == flag || argument.starts_with(flag + "=");
  });
}

/// Whether the command line sets the flag, or one that excludes it, so that the
/// file's value is unused.
bool overrides(const std::vector<std::string>& arguments,
               const CLI::Option& option) {
  return sets_flag(arguments, option.get_name())
         || std::ranges::any_of(
           option.get_excludes(), [&](const CLI::Option* other) {
             return sets_flag(arguments, other->get_name());
           });
}

/// An empty value can't follow '='; one with a leading dash must.
void append_flag(std::vector<std::string>& arguments, const std::string& flag,
                 const std::string& value) {
  if (value.empty())
    arguments.insert(arguments.end(), {flag, value});
  else
    arguments.push_back(flag + "=" + value);
}

std::vector<std::string> flags_of(const std::string& path,
                                  const std::vector<std::string>& arguments,
                                  CLI::App& command) {
  const auto names = allowed_keys(command);
  std::vector<std::string> flags;
  const auto table = parse(path);
  for (const auto& [name, value] : table) {
    require_allowed(path, name, names);
    const std::string key{name.str()};
    const auto flag = "--" + key;
    auto& option = *command.get_option(flag);
    if (overrides(arguments, option))
      continue;
    const auto* list = value.as_array();
    if (list != nullptr && option.get_items_expected_max() > 1)
      for (const auto& item : *list)
        append_flag(flags, flag, checked_text(path, key, item, option));
    else if (const auto text = checked_text(path, key, value, option);
             !is_flag(option) || value.value_or(false))
      append_flag(flags, flag, text);
  }
  return flags;
}

std::string toml_value(const CLI::Option& option,
                       const std::vector<std::string>& values) {
  std::vector<std::string> parts;
  for (const auto& value : values) {
    std::ostringstream quoted;
    const auto is_text = takes_named_value(option)
                           ? !parse_number<std::int64_t>(value)
                           : has_type(option, "TEXT");
    const auto number =
      has_type(option, "FLOAT") ? parse_number<double>(value) : std::nullopt;
    if (is_text)
      quoted << toml::value<std::string>(value);
    else if (number)  // as it would be printed
      quoted << fmt::format("{}", *number);
    else
      quoted << value;
    parts.push_back(quoted.str());
  }
  return option.get_items_expected_max() > 1
           ? fmt::format("[{}]", fmt::join(parts, ", "))
           : parts.front();
}

bool is_description(const std::string& text) {
  return text.starts_with('(') && text.ends_with(')');
}

/// Empty if the flag is unset and has no default to show.
std::string value_text(const CLI::Option& option) {
  if (option.count() > 0)
    return toml_value(option, option.reduced_results());
  if (is_flag(option))
    return "false";
  const auto text = option.get_default_str();
  if (option.get_items_expected_max() > 1 || text.empty()
      || is_description(text))
    return {};
  return toml_value(option, {text});
}

}  // namespace

std::vector<std::string> expand_config(std::vector<std::string> arguments,
                                       CLI::App& command) {
  constexpr std::string_view flag = "--config=";
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].starts_with(flag))
      paths.push_back(arguments[i].substr(flag.size()));
    else if (arguments[i] == "--config" && i + 1 < arguments.size())
      paths.push_back(arguments[++i]);
  if (paths.size() > 1)
    fail(error_code::invalid_argument,
         "--config is given twice: {} and {}; give one file", paths[0],
         paths[1]);
  if (!paths.empty()) {
    const auto flags = flags_of(paths[0], arguments, command);
    arguments.insert(arguments.begin(), flags.begin(), flags.end());
  }
  return arguments;
}

std::string description(const std::string& text) {
  return "(" + text + ")";
}

std::vector<std::pair<std::string, std::string>> flag_values(
  const CLI::App& command, const std::vector<std::string>& moot) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto* option : command.get_options()) {
    if (option->get_lnames().empty())
      continue;
    const auto& name = option->get_lnames().front();
    const bool is_moot =
      option->count() == 0 && std::ranges::find(moot, name) != moot.end();
    if (name == "help" || name == "config" || name == "print-config" || is_moot)
      continue;
    if (auto value = value_text(*option); !value.empty())
      values.emplace_back(name, std::move(value));
  }
  return values;
}

std::string config_text(const CLI::App& command,
                        const std::vector<std::string>& moot) {
  std::string text;
  for (const auto& [name, value] : flag_values(command, moot))
    text += fmt::format("{} = {}\n", name, value);
  return text;
}

}  // namespace troupe::cli
