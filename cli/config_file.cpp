#include "troupe/cli/config_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "troupe/schedules/error.hpp"

namespace troupe::cli {

namespace {

std::string where(const std::string& path, const toml::source_region& at) {
  return fmt::format("{}:{}", path, at.begin.line);
}

std::string scalar_text(const std::string& path, const toml::node& value) {
  if (const auto text = value.value<std::string>(); value.is_string() && text)
    return *text;
  if (value.is_boolean() || value.is_integer() || value.is_floating_point()) {
    std::ostringstream out;
    if (value.is_boolean())
      out << (*value.value<bool>() ? "true" : "false");
    else if (value.is_integer())
      out << *value.value<std::int64_t>();
    else
      out << fmt::format("{}", *value.value<double>());
    return out.str();
  }
  fail(error_code::invalid_argument,
       "{}: a flag's value is a string, a number, a boolean or a list of them",
       where(path, value.source()));
}

std::vector<std::string> known_keys(const CLI::App& command) {
  std::vector<std::string> keys;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames())
      if (name != "help" && name != "config" && name != "print-config")
        keys.push_back(name);
  return keys;
}

void require_known(const std::string& path, const toml::key& key,
                   const std::vector<std::string>& known) {
  if (std::ranges::find(known, key.str()) == known.end())
    fail(error_code::invalid_argument,
         "{}: unknown key '{}'; the keys are the long flags: {}",
         where(path, key.source()), key.str(), fmt::join(known, ", "));
}

toml::table parse(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    fail(error_code::invalid_argument, "--config {}: there is no such file",
         path);
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& reason) {
    fail(error_code::invalid_argument, "{}: {}", where(path, reason.source()),
         reason.description());
  }
}

/// Whether the command line gives the flag, so that the file's value is moot.
bool gives(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    return argument == flag || argument.starts_with(flag + "=");
  });
}

std::vector<std::string> flags_of(const std::string& path,
                                  const std::vector<std::string>& arguments,
                                  const CLI::App& command) {
  const auto known = known_keys(command);
  std::vector<std::string> flags;
  const auto table = parse(path);
  for (const auto& [key, value] : table) {
    require_known(path, key, known);
    const auto flag = fmt::format("--{}", key.str());
    if (gives(arguments, flag))
      continue;
    if (const auto* list = value.as_array()) {
      flags.push_back(flag);
      for (const auto& item : *list)
        flags.push_back(scalar_text(path, item));
    } else if (const auto text = scalar_text(path, value); !text.empty()) {
      flags.push_back(flag + "=" + text);
    }
  }
  return flags;
}

bool is_number_or_boolean(const std::string& text) {
  double number = 0;
  return text == "true" || text == "false"
         || CLI::detail::lexical_cast(text, number);
}

std::string toml_value(const std::vector<std::string>& values, bool list) {
  std::vector<std::string> parts;
  for (const auto& value : values) {
    std::ostringstream quoted;
    if (is_number_or_boolean(value))
      quoted << value;
    else
      quoted << toml::value<std::string>(value);
    parts.push_back(quoted.str());
  }
  return list ? fmt::format("[{}]", fmt::join(parts, ", ")) : parts.front();
}

/// Empty where nothing was given and there is no default to tell.
std::string value_text(const CLI::Option& option) {
  const bool list = option.get_items_expected_max() > 1;
  if (option.count() > 0)
    return toml_value(option.results(), list);
  if (option.get_items_expected_max() == 0)
    return "false";
  const auto given = option.get_default_str();
  if (list || given.empty() || given.starts_with("the "))
    return {};
  return toml_value({given}, false);
}

}  // namespace

std::vector<std::string> expand_config(std::vector<std::string> arguments,
                                       const CLI::App& command) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string path;
    if (arguments[i].starts_with("--config="))
      path = arguments[i].substr(std::string("--config=").size());
    else if (arguments[i] == "--config" && i + 1 < arguments.size())
      path = arguments[i + 1];
    if (path.empty())
      continue;
    const auto end = arguments[i] == "--config" ? i + 2 : i + 1;
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i),
                    arguments.begin() + static_cast<std::ptrdiff_t>(end));
    const auto flags = flags_of(path, arguments, command);
    arguments.insert(arguments.begin(), flags.begin(), flags.end());
    return arguments;
  }
  return arguments;
}

std::string config_text(const CLI::App& command) {
  std::string text;
  for (const auto* option : command.get_options()) {
    if (option->get_lnames().empty())
      continue;
    const auto& name = option->get_lnames().front();
    if (name == "help" || name == "config" || name == "print-config")
      continue;
    if (const auto value = value_text(*option); !value.empty())
      text += fmt::format("{} = {}\n", name, value);
  }
  return text;
}

}  // namespace troupe::cli
