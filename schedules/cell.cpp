#include "troupe/schedules/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

namespace {

struct action_name {
  std::string_view text;
  cell_kind kind;
  op_kind compute = op_kind::forward;
};

// No name is a prefix of a later one.
constexpr std::array actions{
  action_name{"SEND_F", cell_kind::send_forward},
  action_name{"RECV_F", cell_kind::receive_forward},
  action_name{"SEND_B", cell_kind::send_backward},
  action_name{"RECV_B", cell_kind::receive_backward},
  action_name{"OFFLOAD", cell_kind::offload},
  action_name{"RELOAD", cell_kind::reload},
  action_name{"UNSHARD", cell_kind::unshard},
  action_name{"RESHARD", cell_kind::reshard},
  action_name{"REDUCE_GRAD", cell_kind::reduce},
  action_name{"F", cell_kind::compute, op_kind::forward},
  action_name{"B", cell_kind::compute, op_kind::backward},
  action_name{"I", cell_kind::compute, op_kind::input_backward},
  action_name{"W", cell_kind::compute, op_kind::weight_backward},
};

constexpr std::string_view pair_end = ")OVERLAP_F_B";

[[noreturn]] void refuse(const std::string& reason) {
  throw error{error_code::malformed_text, reason};
}

class cell_reader {
 public:
  cell_reader(std::string_view text, spelling style)
    : rest_{text}, style_{style} {}

  cell read() {
    cell result;
    if (rest_.empty())
      return result;
    if (accept("("))
      read_pair(result);
    else
      read_action(result);
    if (!rest_.empty())
      refuse(
        fmt::format("'{}' follows the action; remove it", printable(rest_)));
    return result;
  }

 private:
  bool accept(std::string_view token) {
    if (!rest_.starts_with(token))
      return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void refuse_blank() const {
    if (rest_.starts_with(' ') || rest_.starts_with('\t'))
      refuse("it contains a blank; remove it");
  }

  std::int32_t read_number(std::string_view what, std::int32_t most) {
    const auto digits = rest_.substr(0, rest_.find_first_not_of("0123456789"));
    if (digits.empty())
      refuse_blank();
    if (digits.empty())
      refuse(fmt::format("a {} number is missing", what));
    if (digits.size() > 1 && digits[0] == '0')
      refuse(fmt::format("the {} number {} has a leading zero", what,
                         printable(digits)));
    const auto value = parse_number<std::int32_t>(digits);
    if (!value || *value > most)
      refuse(fmt::format("the {} number {} is larger than {}", what,
                         printable(digits), most));
    rest_.remove_prefix(digits.size());
    return *value;
  }

  void read_action(cell& result) {
    result.first.stage = read_number("stage", 1 << 28);
    for (const auto& action : actions)
      if (accept(action.text)) {
        result.kind = action.kind;
        result.first.kind = action.compute;
        return read_microbatch(result);
      }
    refuse_blank();
    refuse(rest_.empty()
             ? "the action is missing after the stage"
             : fmt::format("'{}' is not an action; known actions are F, B, I, "
                           "W, SEND_F, RECV_F, SEND_B, RECV_B, OFFLOAD, "
                           "RELOAD, UNSHARD, RESHARD and REDUCE_GRAD",
                           printable(rest_)));
  }

  void read_microbatch(cell& result) {
    if (result.kind >= cell_kind::unshard)
      return;
    result.first.microbatch = read_number("microbatch", 1 << 28);
    if (style_ == spelling::pytorch)
      return;
    if (accept("."))
      result.first.slice =
        static_cast<std::int16_t>(read_number("slice", INT16_MAX));
    if (accept("@"))
      result.first.copy =
        static_cast<std::int8_t>(read_number("copy", INT8_MAX));
  }

  op read_part(op_kind kind) {
    cell part;
    if (rest_.starts_with("("))
      refuse("overlapped pairs can't be nested");
    read_action(part);
    if (part.kind != cell_kind::compute || part.first.kind != kind)
      refuse("an overlapped pair is one F, then one B");
    return part.first;
  }

  void read_pair(cell& result) {
    result.kind = cell_kind::pair;
    result.first = read_part(op_kind::forward);
    result.first.overlaps_next = true;
    if (!accept(";"))
      refuse("';' is missing in the overlapped pair");
    result.second = read_part(op_kind::backward);
    if (!accept(style_ == spelling::pytorch ? pair_end : ")"))
      refuse(fmt::format("the overlapped pair must end with '{}'", pair_end));
  }

  std::string_view rest_;
  spelling style_;
};

cell parse_csv_cell(std::string_view text, std::string_view source,
                    std::size_t line, std::size_t number, std::size_t column) {
  try {
    return parse_cell(text);
  } catch (const error& reason) {
    fail(reason.code(), "{}, line {}, cell {} (column {}) '{}': {}", source,
         line, number, column, printable(text), reason.what());
  }
}

/// Blanks around a cell are allowed, as in PyTorch's reader.
std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const auto begin = std::min(text.find_first_not_of(blanks), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

/// Names the format of a file that is not CSV; empty if it isn't recognised.
std::string_view other_format(std::string_view text) {
  if (text.starts_with("<"))
    return "it is a picture (SVG) or another XML file";
  if (text.starts_with("{") || text.starts_with("["))
    return "it is JSON";
  if (text.starts_with("troupe plan"))
    return "it is a plan, which verify, simulate and train --plan read";
  if (text.starts_with("troupe schedule"))
    return "it is the text of a schedule";
  return {};
}

std::vector<cell> parse_row(std::string_view row, std::string_view source,
                            std::size_t line) {
  if (row.empty() || row == "\"\"")
    fail(error_code::malformed_text,
         "{}, line {}: the line is empty, but a rank has at least one op",
         source, line);
  std::vector<cell> cells;
  for (std::size_t begin = 0; begin <= row.size();) {
    const auto end = std::min(row.find(',', begin), row.size());
    cells.push_back(
      parse_csv_cell(without_blanks(row.substr(begin, end - begin)), source,
                     line, cells.size() + 1, begin + 1));
    begin = end + 1;
  }
  return cells;
}

}  // namespace

std::string_view action_of(cell_kind kind) {
  const auto* found = std::ranges::find(actions, kind, &action_name::kind);
  return found == actions.end() ? std::string_view{} : found->text;
}

cell parse_cell(std::string_view text, spelling style) {
  return cell_reader{text, style}.read();
}

std::string to_text(const cell& what) {
  if (what.kind == cell_kind::idle)
    return {};
  if (what.kind == cell_kind::compute)
    return to_text(what.first);
  if (what.kind == cell_kind::pair)
    return fmt::format("({};{}{}", to_text(what.first), to_text(what.second),
                       pair_end);
  const auto text = fmt::format("{}{}", what.first.stage, action_of(what.kind));
  return what.kind >= cell_kind::unshard
           ? text
           : fmt::format("{}{}", text, what.first.microbatch);
}

std::vector<std::vector<cell>> parse_cells(std::string_view csv,
                                           std::string_view source) {
  if (const auto found = other_format(csv); !found.empty())
    fail(error_code::malformed_text,
         "{}: {}; give a schedule's CSV or text form, as troupe plan --format "
         "csv or schedule writes it",
         source, found);
  std::vector<std::vector<cell>> rows;
  while (!csv.empty()) {
    const auto end = std::min(csv.find('\n'), csv.size());
    auto row = csv.substr(0, end);
    if (end < csv.size() && row.ends_with('\r'))
      row.remove_suffix(1);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    rows.push_back(parse_row(row, source, rows.size() + 1));
  }
  if (rows.empty())
    fail(error_code::malformed_text,
         "{}: the file is empty; it needs one line for each rank", source);
  return rows;
}

}  // namespace troupe
