#include "troupe/cli/plan/help.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <string_view>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/suggestions.hpp"

namespace troupe::cli {

namespace {

constexpr std::size_t text_column = 30;
constexpr std::size_t command_column = 16;

/// Where the lines after the first one of a wrapped text begin: below the
/// second of two columns, or else below the first word.
std::size_t hanging_indent(std::string_view line, std::size_t room) {
  const auto begin = line.find_first_not_of(' ');
  const auto gap = line.find("  ", begin);
  if (gap == line.npos)
    return begin;
  const auto second = line.find_first_not_of(' ', gap);
  return second < room / 2 ? second : begin + 2;
}

/// Appends a line, wrapped at `help_columns`, whose parts begin at a column.
void append_wrapped(std::string& text, std::string line, std::size_t column) {
  const auto room = help_columns - column;
  if (line.find_first_not_of(' ') == line.npos)
    return;
  const auto hang = hanging_indent(line, room);
  while (line.size() > room) {
    auto cut = line.rfind(' ', room);
    if (cut == line.npos || cut <= hang)
      cut = line.find(' ', std::max(room, hang + 1));
    const auto next = line.find_first_not_of(' ', cut);
    if (next == line.npos)
      break;
    text += line.substr(0, cut) + '\n' + std::string(column, ' ');
    line = std::string(hang, ' ') + line.substr(next);
  }
  text += line;
}

/// "  NAME     TEXT"; the text is wrapped, and begins on a line of its own
/// after a long name.
std::string help_entry(const std::string& name, const std::string& text,
                       std::size_t column) {
  auto entry = "  " + name;
  std::istringstream lines(text);
  bool is_first = true;
  for (std::string line; std::getline(lines, line); is_first = false) {
    if (is_first && entry.size() < column)
      entry.resize(column, ' ');
    else
      entry += '\n' + std::string(column, ' ');
    append_wrapped(entry, line, column);
  }
  return entry + '\n';
}

class help_formatter final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option,
                          bool is_positional) const override {
    return help_entry(is_positional ? argument_text(*option)
                                    : make_option_name(option, false)
                                        + make_option_opts(option),
                      make_option_desc(option), text_column);
  }
  std::string make_option_usage(const CLI::Option* option) const override {
    return argument_text(*option);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return help_entry(command->get_name(), command->get_description(),
                      command_column);
  }
  std::string make_group(std::string title, bool is_positional,
                         std::vector<const CLI::Option*> all) const override {
    const auto colon = title.find(": ");
    auto text = colon == title.npos
                  ? fmt::format("\n{}:\n", title)
                  : fmt::format("\n{} ({}):\n", title.substr(0, colon),
                                title.substr(colon + 2));
    for (const auto* option : all)
      text += make_option(option, is_positional);
    return text;
  }
};

struct first_flags {
  std::string_view command;
  std::vector<std::string> flags;
};

/// The flags of a first run, of commands with sections.
const std::vector<first_flags>& all_first_flags() {
  static const std::vector<first_flags> all{
    {"train",
     {"--text", "--model", "--ranks", "--schedule", "--microbatches", "--seq",
      "--steps", "--lr", "--device", "--checkpoints", "--dashboard"}},
    {"generate",
     {"--checkpoint", "--prompt", "--prompts", "--max-tokens", "--temperature",
      "--top-k", "--seed", "--ranks", "--device", "--json"}},
    {"plan",
     {"--schedule", "--ranks", "--stages-per-rank", "--microbatches",
      "--slices", "--data-parallel", "--format", "--width", "--output"}},
    {"simulate",
     {"file", "--schedule", "--ranks", "--stages-per-rank", "--microbatches",
      "--costs", "--sizes", "--jitter", "--steps", "--json"}},
  };
  return all;
}

bool is_shown(const CLI::Option& option) {
  return !option.get_group().empty();
}

std::vector<const CLI::Option*> brief_options(const CLI::App& command) {
  const auto& all = all_first_flags();
  const auto row =
    std::ranges::find(all, command.get_name(), &first_flags::command);
  std::vector<const CLI::Option*> options;
  if (row != all.end())
    for (const auto& flag : row->flags)
      options.push_back(command.get_option(flag));
  else
    for (const auto* option : command.get_options())
      if (is_shown(*option) && option != command.get_help_ptr())
        options.push_back(option);
  return options;
}

/// Where a text may end: before "; ", ": ", ". " and " (" outside parentheses,
/// or before ", " if `at_commas`; 0 if nowhere before `room`.
std::size_t last_end(std::string_view text, std::size_t room, bool at_commas) {
  std::size_t end = 0;
  int depth = 0;
  for (std::size_t i = 1; i < std::min(text.size(), room + 1); ++i) {
    const auto pair = text.substr(i, 2);
    const bool ends =
      at_commas ? pair == ", "
                : pair == "; " || pair == ": " || pair == ". " || pair == " (";
    if (depth == 0 && ends)
      end = i;
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
  }
  return end;
}

/// The beginning of a description that fits.
std::string brief_text(std::string_view text, std::size_t room) {
  text = text.substr(0, text.find('\n'));
  if (text.ends_with(':'))
    text.remove_suffix(1);
  if (text.size() <= room)
    return std::string{text};
  if (const auto end = last_end(text, room, false); end > 0)
    return std::string{text.substr(0, end)};
  auto end = last_end(text, room - 5, true);
  if (end > 0)
    return std::string{text.substr(0, end)} + ", ...";
  end = text.rfind(' ', room - 4);
  return std::string{text.substr(0, end)} + " ...";
}

/// The name of a flag, with its value's name and a short default.
std::string brief_name(const CLI::Option& option) {
  if (option.get_positional())
    return argument_text(option);
  auto name = option.get_name(false, true);
  if (option.get_items_expected_max() > 0) {
    const auto type = option.get_type_name();
    const auto value = type.substr(0, type.find_first_of(":{"));
    if (!value.empty())
      name += ' ' + value;
  }
  const auto usual = option.get_default_str();
  if (!usual.empty() && name.size() + usual.size() + 5 <= text_column)
    name += '=' + usual;
  if (option.get_required())
    name += " REQUIRED";
  return name;
}

std::string brief_line(const std::string& name, const std::string& text) {
  const auto begin = std::max(text_column, name.size() + 4);
  return fmt::format("  {:<{}}  {}\n", name, begin - 4,
                     brief_text(text, help_columns - begin));
}

/// The first example of the footer, which may continue over several lines.
std::string first_example(const CLI::App& command) {
  std::istringstream lines(command.get_footer());
  std::string text, line;
  while (std::getline(lines, line) && !line.starts_with("Example"))
    ;
  while (std::getline(lines, line)) {
    text += (text.empty() ? line.substr(line.find_first_not_of(' ')) : line);
    text += '\n';
    if (!line.ends_with('\\'))
      break;
  }
  return text.empty() ? text : "Example: " + text;
}

std::string full_name(const std::string& parents, const CLI::App& command) {
  return parents + (parents.empty() ? "" : " ") + command.get_name();
}

std::string title_of(const std::string& name, const CLI::App& command) {
  const auto usage = help_formatter{}.make_usage(&command, name);
  return command.get_description() + '\n'
         + usage.substr(0, usage.find_last_not_of('\n') + 1) + '\n';
}

std::string brief_help(const std::string& name, const CLI::App& command) {
  auto text = title_of(name, command) + first_example(command) + "\nFlags:\n";
  for (const auto* option : brief_options(command))
    text += brief_line(brief_name(*option), option->get_description());
  const auto sections = sections_of(command);
  if (sections.empty())
    return text + '\n'
           + brief_line("--help-all", "all flags, with all they accept");
  text += "\nMore of them, by section (--help-all shows all):\n";
  for (const auto& section : sections)
    text += brief_line("--help=" + section.name, section.summary);
  return text;
}

bool fits_screen(const std::string& text) {
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    if (line.size() > help_columns)
      return false;
  return count <= help_lines;
}

std::string short_help(const std::string& parents, const CLI::App& command) {
  auto whole = command.help(parents);
  return fits_screen(whole) ? whole
                            : brief_help(full_name(parents, command), command);
}

std::string section_help(const std::string& of, const CLI::App& command,
                         const std::string& name) {
  const auto sections = sections_of(command);
  if (sections.empty())
    fail(error_code::invalid_argument,
         "the help of {} has no sections; see {} --help-all", of, of);
  std::vector<std::string> names;
  for (const auto& section : sections)
    names.push_back(section.name);
  if (std::ranges::count(names, name) == 0)
    fail(error_code::invalid_argument,
         "the help of {} has no section '{}'{} The sections are {}", of,
         printable(name), suggestion(name, names), fmt::join(names, ", "));
  std::string text = fmt::format("{} --help={}\n", of, name);
  for (const auto& title : command.get_groups()) {
    const auto options = command.get_options([&](const CLI::Option* option) {
      return option->get_group() == title && is_shown(*option)
             && option->nonpositional() && section_of(*option) == name;
    });
    if (!options.empty())
      text += help_formatter{}.make_group(title, false, options);
  }
  return text;
}

}  // namespace

void set_help_layout(CLI::App& app) {
  app.formatter(std::make_shared<help_formatter>());
  app.set_help_flag("-h,--help", "this; more by --help=SECTION and --help-all");
}

std::string argument_text(const CLI::Option& argument) {
  const auto type = argument.get_type_name();
  auto name = type.substr(0, type.find(':'));
  if (name.find('[') != name.npos)
    return name;
  if (argument.get_items_expected_max() > 1)
    name += "...";
  return argument.get_required() ? name : "[" + name + "]";
}

std::string missing_text(const CLI::App& command) {
  for (const auto* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return option->get_positional() ? argument_text(*option)
                                      : option->get_name();
  return "an argument";
}

std::string section_of(const CLI::Option& option) {
  auto name = option.get_group();
  name.resize(std::min(name.find_first_of(": "), name.size()));
  std::ranges::transform(name, name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return name;
}

std::vector<help_section> sections_of(const CLI::App& command) {
  std::vector<help_section> sections;
  for (const auto* option : command.get_options()) {
    if (!is_shown(*option) || option->get_positional()
        || option == command.get_help_ptr())
      continue;
    const auto name = section_of(*option);
    auto section = std::ranges::find(sections, name, &help_section::name);
    const auto& title = option->get_group();
    const auto colon = title.find(": ");
    if (section == sections.end())
      section = sections.insert(
        section,
        {name, colon == title.npos ? std::string{} : title.substr(colon + 2)});
    if (colon == title.npos)
      section->summary +=
        (section->summary.empty() ? "" : ", ") + option->get_name(false, false);
  }
  return sections.size() > 1 ? sections : std::vector<help_section>{};
}

std::optional<std::string> requested_help(
  const CLI::App& app, const std::vector<std::string>& arguments) {
  constexpr std::string_view of_section = "--help=";
  const auto end = std::ranges::find(arguments, "--");
  const auto flag =
    std::find_if(arguments.begin(), end, [&](const std::string& argument) {
      return argument == "-h" || argument == "--help"
             || argument == "--help-all" || argument.starts_with(of_section);
    });
  if (flag == end)
    return {};
  const auto* command = &app;
  std::string parents;
  auto each = arguments.begin();
  for (; each != flag; ++each) {
    const auto named = command->get_subcommands(
      [&](const CLI::App* one) { return one->get_name() == *each; });
    if (named.empty())
      break;
    parents += (parents.empty() ? "" : " ") + command->get_name();
    command = named.front();
  }
  if (*flag == "--help-all")
    return command->help(parents);
  if (flag->starts_with(of_section))
    return section_help(full_name(parents, *command), *command,
                        flag->substr(of_section.size()));
  const auto section = each != flag ? each : std::next(flag);
  if (section != end
      && std::ranges::count(sections_of(*command), *section,
                            &help_section::name)
           > 0)
    return section_help(full_name(parents, *command), *command, *section);
  return short_help(parents, *command);
}

std::vector<std::string> without_words(std::vector<std::string> arguments) {
  if (arguments == std::vector<std::string>{"version"})
    return {"--version"};
  if (arguments == std::vector<std::string>{"help"})
    return {"--help"};
  const bool is_help = arguments.size() > 1 && arguments.front() == "help";
  if (!is_help || arguments[1].starts_with("-"))
    return arguments;
  arguments.erase(arguments.begin());
  const bool has_flag = std::ranges::any_of(
    arguments, [](const auto& each) { return each.starts_with("-"); });
  if (!has_flag)
    arguments.emplace_back("--help");
  return arguments;
}

}  // namespace troupe::cli
