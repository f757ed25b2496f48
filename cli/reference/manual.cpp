#include "troupe/cli/reference/manual.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <sstream>

#include "troupe/cli/plan/help.hpp"
#include "troupe_version.hpp"

namespace troupe::cli {

namespace {

/// Text without meaning to troff.
std::string troff_text(const std::string& text) {
  std::string result;
  bool begins_line = true;
  for (const char each : text) {
    if (begins_line && (each == '.' || each == '\''))
      result += "\\&";
    begins_line = each == '\n';
    result += each == '\\' ? "\\e" : each == '-' ? "\\-" : std::string(1, each);
  }
  return result;
}

/// Lines as they are, such as examples and aligned columns.
std::string as_they_are(const std::string& text) {
  std::string result = ".nf\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    result += (line.empty() ? "" : "\\&" + troff_text(line)) + "\n";
  return result + ".fi\n";
}

std::string manual_text(const std::string& description) {
  return description.find("\n  ") == description.npos
           ? troff_text(description) + "\n"
           : as_they_are(description);
}

std::string manual_entry(const CLI::Option& option) {
  const bool is_argument = option.get_positional();
  const auto name =
    is_argument ? argument_text(option) : option.get_name(false, true);
  std::string value;
  if (!is_argument && option.get_items_expected_max() > 0) {
    value = " " + option.get_type_name();
    if (const auto usual = option.get_default_str(); !usual.empty())
      value += " = " + usual;
    if (option.get_items_expected_max() > 1)
      value += " ...";
  }
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}", troff_text(name),
                     troff_text(value), manual_text(option.get_description()));
}

std::string manual_section(const CLI::App& command,
                           const std::string& parents) {
  const auto name = parents + command.get_name();
  auto text = fmt::format(".SS troupe {}\n{}", troff_text(name),
                          manual_text(command.get_description()));
  for (const auto* option : command.get_options())
    if (!option->get_group().empty() && option != command.get_help_ptr())
      text += manual_entry(*option);
  if (const auto footer = command.get_footer(); !footer.empty())
    text +=
      ".PP\n" + as_they_are(footer.substr(footer.find_first_not_of('\n')));
  for (const auto* each : command.get_subcommands({}))
    text += manual_section(*each, name + " ");
  return text;
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  auto text = fmt::format(
    ".TH TROUPE 1 \"\" \"troupe {}\" \"User commands\"\n"
    ".SH NAME\ntroupe \\- pipeline\\-parallel training with actors\n"
    ".SH SYNOPSIS\n\\fBtroupe\\fR COMMAND [FLAGS]\n"
    ".SH DESCRIPTION\n"
    "Flags that take a value are written \\-\\-flag VALUE or "
    "\\-\\-flag=VALUE. Each command has a short help (\\-\\-help), and "
    "\\-\\-help\\-all, which has what is below.\n"
    ".SH COMMANDS\n",
    TROUPE_VERSION);
  for (const auto* each : app.get_subcommands({}))
    text += manual_section(*each, "");
  return text;
}

}  // namespace troupe::cli
