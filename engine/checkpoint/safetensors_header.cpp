#include "troupe/engine/checkpoint/safetensors_header.hpp"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

using entry = safetensors_entry;

constexpr std::array<std::pair<const char*, at::ScalarType>, 11> dtypes = {
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
   {"C64", at::kComplexFloat}}};

/// Parses a header incrementally, so that an invalid one fails at its first
/// wrong token. The functions are called by nlohmann's parser.
class header_reader {
 public:
  using number_integer_t = std::int64_t;
  using number_unsigned_t = std::uint64_t;
  using number_float_t = double;
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;

  explicit header_reader(const std::string& path) : path_(path) {}

  safetensors_header take() {
    return {std::move(entries_), std::move(metadata_)};
  }

  bool start_object(std::size_t) {
    require_plain_field();
    descend();
    if (depth_ == 2)
      keys_.clear();
    return true;
  }
  bool end_object() {
    --depth_;
    if (depth_ == 1 && !is_metadata_)
      finish_entry();
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ == 0)
      refuse_checkpoint(
        path_, "its header is not a JSON object; is it a safetensors file?");
    if (depth_ == 1)
      refuse("is not an object");
    if (depth_ > 2 || is_metadata_)
      require_plain_field();
    descend();
    return true;
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool key(string_t& name) {
    if (depth_ == 1)
      return begin_entry(name);
    if (depth_ == 2) {
      field_ = name;
      if (!keys_.insert(name).second)
        refuse(fmt::format("has '{}' twice", printable(name)));
    }
    return true;
  }
  bool string(string_t& value) {
    require_field();
    if (is_metadata_)
      metadata_[field_] = value;
    else if (depth_ == 2 && field_ == "dtype")
      dtype_ = value;
    else if (is_wanted_list())
      refuse(
        fmt::format("has a {} that is not a list of whole numbers", field_));
    return true;
  }
  bool number_unsigned(number_unsigned_t value) {
    require_field();
    if (depth_ == 3 && field_ == "shape" && !is_metadata_)
      add_size(value);
    else if (depth_ == 3 && field_ == "data_offsets" && !is_metadata_)
      offsets_.push_back(value);
    else
      return other("a number");
    return true;
  }
  bool number_integer(number_integer_t value) {
    if (depth_ == 3 && field_ == "shape" && !is_metadata_)
      refuse("has an impossible shape");
    return other(fmt::format("{}", value));
  }
  bool number_float(number_float_t, const string_t& text) {
    return other(printable(text));
  }
  bool boolean(bool) { return other("true or false"); }
  bool null() { return other("null"); }
  bool binary(binary_t&) { return other("bytes"); }
  bool parse_error(std::size_t index, const std::string&,
                   const nlohmann::json::exception&) {
    refuse_checkpoint(
      path_, fmt::format("its header is not a JSON object, from byte {} on; "
                         "is it a safetensors file?",
                         index));
  }

 private:
  /// A valid header has three levels: an object of objects with lists.
  void descend() {
    constexpr int deepest = 8;
    if (++depth_ > deepest)
      refuse_checkpoint(
        path_, fmt::format("its header has more than {} levels", deepest));
  }
  [[noreturn]] void refuse(const std::string& what) const {
    refuse_checkpoint(path_,
                      fmt::format("tensor '{}' {}", printable(name_), what));
  }
  void require_field() const {
    if (depth_ == 0)
      refuse_checkpoint(
        path_, "its header is not a JSON object; is it a safetensors file?");
    if (depth_ == 1)
      refuse("is not an object");
  }
  /// Checks that a new level may begin.
  void require_plain_field() const {
    if (depth_ >= 2)
      other("another list");
  }
  bool is_wanted_list() const {
    return !is_metadata_ && depth_ >= 2
           && (field_ == "shape" || field_ == "data_offsets");
  }
  /// Handles a value of an unknown field; refuses one for a known field.
  bool other(const std::string& what) const {
    require_field();
    if (is_metadata_)
      refuse_checkpoint(path_, fmt::format("its metadata '{}' is not a string",
                                           printable(field_)));
    if (is_wanted_list() || (depth_ == 2 && field_ == "dtype"))
      refuse(fmt::format("has {} in its {}", what, field_));
    return true;
  }
  bool begin_entry(const std::string& name) {
    name_ = name;
    is_metadata_ = name == "__metadata__";
    field_.clear();
    dtype_.reset();
    shape_.clear();
    offsets_.clear();
    if (!names_.insert(name).second)
      refuse("is there twice");
    return true;
  }
  void add_size(std::uint64_t size) {
    if (size > static_cast<std::uint64_t>(INT64_MAX))
      refuse("has an impossible shape");
    shape_.push_back(static_cast<std::int64_t>(size));
  }
  void finish_entry() {
    if (!dtype_ || !keys_.contains("shape") || offsets_.size() != 2)
      refuse("lacks its dtype, shape or offsets");
    entry made{name_, dtype_of(*dtype_), shape_, offsets_[0], offsets_[1]};
    entries_.push_back(std::move(made));
  }
  at::ScalarType dtype_of(const std::string& name) const {
    for (const auto& [known, type] : dtypes)
      if (name == known)
        return type;
    refuse(fmt::format("has unknown dtype '{}'", printable(name)));
  }

  const std::string& path_;
  int depth_ = 0;
  std::string name_, field_;
  bool is_metadata_ = false;
  std::set<std::string> names_, keys_;
  std::optional<std::string> dtype_;
  std::vector<std::int64_t> shape_;
  std::vector<std::uint64_t> offsets_;
  std::vector<entry> entries_;
  std::map<std::string, std::string> metadata_;
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
  for (const auto& [name, known] : dtypes)
    if (known == type)
      return name;
  refuse_checkpoint(path, fmt::format("safetensors has no name for dtype {}",
                                      c10::toString(type)));
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
  header_reader reader(path);
  nlohmann::json::sax_parse(text, &reader);
  auto header = reader.take();
  require_no_holes(path, header.entries, data_bytes);
  return header;
}

}  // namespace troupe
