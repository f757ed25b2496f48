#include "troupe/engine/checkpoint/safetensors_header.hpp"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/json.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

using entry = safetensors_entry;

constexpr std::array<std::pair<const char*, at::ScalarType>, 19> dtypes = {
  {{"F64", at::kDouble},
   {"F32", at::kFloat},
   {"F16", at::kHalf},
   {"BF16", at::kBFloat16},
   {"I64", at::kLong},
   {"I32", at::kInt},
   {"I16", at::kShort},
   {"I8", at::kChar},
   {"U8", at::kByte},
   {"BOOL", at::kBool},
   {"C64", at::kComplexFloat},
   {"U64", at::kUInt64},
   {"U32", at::kUInt32},
   {"U16", at::kUInt16},
   {"F8_E4M3", at::kFloat8_e4m3fn},
   {"F8_E5M2", at::kFloat8_e5m2},
   {"F8_E4M3FNUZ", at::kFloat8_e4m3fnuz},
   {"F8_E5M2FNUZ", at::kFloat8_e5m2fnuz},
   {"F8_E8M0", at::kFloat8_e8m0fnu}}};

/// Takes a header's tensors and texts as they are parsed, so that JSON is held
/// of one of them only.
class header_reader {
 public:
  explicit header_reader(const std::string& path) : path_(path) {}

  safetensors_header read(std::string_view text) {
    // A valid header has three: an object of objects with lists.
    constexpr int most_levels = 8;
    if (json_levels(text) > most_levels)
      refuse_checkpoint(
        path_, fmt::format("its header has more than {} levels", most_levels));
    try {
      [[maybe_unused]] const auto left_over =
        json::parse(text, [this](int depth, event what, json& value) {
          return take(depth, what, value);
        });
    } catch (const json::exception& reason) {
      refuse_checkpoint(
        path_, fmt::format("its header is not a JSON object ({}); is it a "
                           "safetensors file?",
                           printable(reason.what(), 200)));
    }
    return std::move(header_);
  }

 private:
  using json = nlohmann::json;
  using event = json::parse_event_t;

  /// Whether the parser is to keep the value.
  bool take(int depth, event what, const json& value) {
    if (what == event::key && depth == 1)
      return begin(value.get<std::string>());
    if (what == event::key && depth == 2)
      return take_field(value.get<std::string>());
    if (depth != 1)
      return true;
    if (what == event::value || what == event::array_start)
      refuse("is not an object");
    if (what != event::object_end)
      return true;
    is_metadata_ ? take_texts(value) : take_tensor(value);
    return false;
  }

  bool begin(const std::string& name) {
    name_ = name;
    is_metadata_ = name == "__metadata__";
    fields_.clear();
    if (!names_.insert(name).second)
      refuse("is there twice");
    return true;
  }

  bool take_field(const std::string& name) {
    if (!fields_.insert(name).second)
      refuse(fmt::format("has '{}' twice", printable(name)));
    return is_metadata_ || name == "dtype" || name == "shape"
           || name == "data_offsets";
  }

  void take_texts(const json& texts) {
    for (const auto& [name, text] : texts.items())
      if (text.is_string())
        header_.metadata[name] = text.get<std::string>();
      else
        refuse_checkpoint(
          path_,
          fmt::format("its metadata '{}' is not a string", printable(name)));
  }

  void take_tensor(const json& fields) {
    if (fields.size() != 3)
      refuse("lacks its dtype, shape or offsets");
    const auto& dtype = fields["dtype"];
    if (!dtype.is_string())
      refuse_value(dtype, "dtype");
    auto shape = wholes_of(fields, "shape");
    const auto offsets = wholes_of(fields, "data_offsets");
    if (offsets.size() != 2)
      refuse("lacks its dtype, shape or offsets");
    header_.entries.push_back({name_, dtype_of(dtype.get<std::string>()),
                               std::move(shape),
                               static_cast<std::uint64_t>(offsets[0]),
                               static_cast<std::uint64_t>(offsets[1])});
  }

  std::vector<std::int64_t> wholes_of(const json& fields,
                                      const char* name) const {
    const auto& list = fields[name];
    if (!list.is_array())
      refuse_value(list, name);
    std::vector<std::int64_t> wholes;
    for (const auto& each : list)
      if (const auto whole = json_as<std::int64_t>(each); whole && *whole >= 0)
        wholes.push_back(*whole);
      else
        refuse_value(each, name);
    return wholes;
  }

  at::ScalarType dtype_of(const std::string& name) const {
    for (const auto& [dtype_name, dtype] : dtypes)
      if (name == dtype_name)
        return dtype;
    refuse(fmt::format("has unknown dtype '{}'", printable(name)));
  }

  [[noreturn]] void refuse_value(const json& value, const char* field) const {
    refuse(fmt::format("has {} in its {}", printable(json_text(value)), field));
  }
  [[noreturn]] void refuse(const std::string& what) const {
    refuse_checkpoint(path_,
                      fmt::format("tensor '{}' {}", printable(name_), what));
  }

  const std::string& path_;
  safetensors_header header_;
  std::string name_;  // of the tensor whose fields are read
  bool is_metadata_ = false;
  std::set<std::string> names_, fields_;
};

/// A tensor's bytes. Also refuses strides that overflow: without elements, they
/// count an empty dimension as one.
std::uint64_t bytes_of(const std::string& path, const entry& item) {
  const auto most = static_cast<std::uint64_t>(INT64_MAX);
  std::uint64_t bytes = c10::elementSize(item.dtype), strides = bytes;
  for (const auto size : item.shape) {
    const auto wide = static_cast<std::uint64_t>(size);
    if (strides > most / std::max<std::uint64_t>(wide, 1))
      refuse_checkpoint(path, fmt::format("tensor '{}' has an impossible shape",
                                          printable(item.name)));
    strides *= std::max<std::uint64_t>(wide, 1);
    bytes *= wide;
  }
  return bytes;
}

void require_no_holes(const std::string& path, std::vector<entry>& entries,
                      std::uint64_t data_bytes) {
  std::ranges::sort(entries, {}, [](const entry& item) {
    return std::pair(item.begin, item.end);
  });
  std::uint64_t index = 0;
  for (const auto& item : entries) {
    const auto bytes = bytes_of(path, item);
    if (item.begin != index || item.end < item.begin
        || item.end - item.begin != bytes)
      refuse_checkpoint(
        path, fmt::format("tensor '{}' has offsets {}..{} where {}..{} was "
                          "expected",
                          printable(item.name), item.begin, item.end, index,
                          index + bytes));
    index = item.end;
  }
  if (index != data_bytes)
    refuse_checkpoint(
      path, fmt::format("its header describes {} bytes of data, the file "
                        "has {}",
                        index, data_bytes));
}

}  // namespace

void refuse_checkpoint(const std::string& path, const std::string& what) {
  fail(error_code::invalid_checkpoint, "{}: {}", path, what);
}

std::string safetensors_dtype(const std::string& path, at::ScalarType type) {
  for (const auto& [name, dtype] : dtypes)
    if (dtype == type)
      return name;
  refuse_checkpoint(path, fmt::format("safetensors has no name for dtype {}",
                                      c10::toString(type)));
}

bool is_loadable(at::ScalarType type) {
  return !at::isBarebonesUnsignedType(type) && !at::isFloat8Type(type);
}

safetensors_header parse_safetensors_header(const std::string& path,
                                            std::string_view text,
                                            std::uint64_t data_bytes) {
  // The parser would accept both.
  if (!text.starts_with('{') || text.find('\0') != std::string_view::npos)
    refuse_checkpoint(
      path,
      "its header is not a JSON object, padded with spaces; is it a "
      "safetensors file?");
  auto header = header_reader(path).read(text);
  require_no_holes(path, header.entries, data_bytes);
  return header;
}

}  // namespace troupe
