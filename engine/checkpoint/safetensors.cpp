#include "troupe/engine/checkpoint/safetensors.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/engine/data/mapped_file.hpp"
#include "troupe/schedules/atomic_file.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t max_header_bytes = 100'000'000;

constexpr std::array<std::pair<const char*, at::ScalarType>, 9> dtypes = {
  {{"F64", at::kDouble},
   {"F32", at::kFloat},
   {"F16", at::kHalf},
   {"BF16", at::kBFloat16},
   {"I64", at::kLong},
   {"I32", at::kInt},
   {"I16", at::kShort},
   {"U8", at::kByte},
   {"BOOL", at::kBool}}};

[[noreturn]] void bad(const std::string& path, const std::string& what) {
  fail(error_code::invalid_checkpoint, "{}: {}", path, what);
}

std::string dtype_name(const std::string& path, at::ScalarType type) {
  for (const auto& [name, known] : dtypes)
    if (known == type)
      return name;
  bad(path,
      fmt::format("safetensors has no name for dtype {}", c10::toString(type)));
}

at::ScalarType dtype_of(const std::string& path, const std::string& tensor,
                        const std::string& name) {
  for (const auto& [known, type] : dtypes)
    if (name == known)
      return type;
  bad(path, fmt::format("tensor '{}' has unknown dtype '{}'", tensor, name));
}

std::string header_of(const std::string& path, const parameter_list& tensors,
                      const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto end = offset + tensor.nbytes();
    if (header.contains(name))
      bad(path, fmt::format("two tensors are named '{}'", name));
    header[name] = {{"dtype", dtype_name(path, tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

/// One tensor as the header describes it.
struct entry {
  std::string name;
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::uint64_t bytes_of(const std::string& path, const entry& item) {
  std::uint64_t bytes = c10::elementSize(item.dtype);
  for (const auto size : item.shape) {
    if (size < 0
        || (size > 0
            && bytes > std::numeric_limits<std::uint64_t>::max()
                         / static_cast<std::uint64_t>(size)))
      bad(path, fmt::format("tensor '{}' has an impossible shape", item.name));
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes;
}

entry parse_entry(const std::string& path, const std::string& name,
                  const nlohmann::json& fields) {
  try {
    entry item{name, dtype_of(path, name, fields.at("dtype")),
               fields.at("shape").get<std::vector<std::int64_t>>()};
    const auto& offsets = fields.at("data_offsets");
    item.begin = offsets.at(0).get<std::uint64_t>();
    item.end = offsets.at(1).get<std::uint64_t>();
    return item;
  } catch (const nlohmann::json::exception&) {
    bad(path,
        fmt::format("tensor '{}' lacks a dtype, a shape or its offsets", name));
  }
}

void require_no_holes(const std::string& path, std::vector<entry>& entries,
                      std::uint64_t data_bytes) {
  std::ranges::sort(entries, {}, &entry::begin);
  std::uint64_t at = 0;
  for (const auto& item : entries) {
    if (item.begin != at || item.end < item.begin
        || item.end - item.begin != bytes_of(path, item))
      bad(path, fmt::format("tensor '{}' has offsets {}..{} where {}..{} was "
                            "expected",
                            item.name, item.begin, item.end, at,
                            at + bytes_of(path, item)));
    at = item.end;
  }
  if (at != data_bytes)
    bad(path, fmt::format("its header describes {} bytes of data, the file "
                          "has {}",
                          at, data_bytes));
}

std::vector<entry> parse_header(const std::string& path, std::string_view text,
                                std::uint64_t data_bytes) {
  // In order of names: an ordered one looks through all keys for each.
  const auto header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object())
    bad(path, "its header is not a JSON object; is it a safetensors file?");
  std::vector<entry> entries;
  for (const auto& [name, fields] : header.items())
    if (name != "__metadata__")
      entries.push_back(parse_entry(path, name, fields));
  require_no_holes(path, entries, data_bytes);
  return entries;
}

at::Tensor copy_out(const entry& item, const std::byte* data) {
  auto tensor = at::empty(item.shape, item.dtype);
  if (tensor.numel() > 0)
    std::memcpy(tensor.mutable_data_ptr(), data + item.begin,
                item.end - item.begin);
  return tensor;
}

const at::Tensor* find(const parameter_list& values, const std::string& name) {
  const auto at =
    std::ranges::find(values, name, &parameter_list::value_type::first);
  return at == values.end() ? nullptr : &at->second;
}

void require_same_names(const parameter_list& parameters,
                        const parameter_list& values, const std::string& path) {
  for (const auto& [name, parameter] : parameters) {
    const auto* value = find(values, name);
    if (!value)
      bad(path, fmt::format("lacks the parameter '{}'", name));
    if (value->sizes() != parameter.sizes())
      bad(path, fmt::format("'{}' is {}, the model's is {}; check --d-model, "
                            "--layers and --seq",
                            name, describe(*value), describe(parameter)));
  }
  for (const auto& [name, value] : values)
    if (!find(parameters, name))
      bad(path, fmt::format("has '{}', which the model lacks", name));
}

}  // namespace

void write_safetensors(const std::string& path, const parameter_list& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto header = header_of(path, tensors, metadata);
  const std::uint64_t length = header.size();
  atomic_file file(path);
  file.write({reinterpret_cast<const char*>(&length), sizeof(length)});
  file.write(header);
  for (const auto& [name, tensor] : tensors) {
    const auto dense = tensor.detach().contiguous().cpu();
    file.write(
      {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()});
  }
  file.commit();
}

parameter_list read_safetensors(const std::string& path) {
  const mapped_file file(path);
  const auto bytes = file.bytes();
  std::uint64_t length = 0;
  if (bytes.size() < sizeof(length))
    bad(path, "is too short for a safetensors file");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > max_header_bytes || length > bytes.size() - sizeof(length))
    bad(path, fmt::format("announces a header of {} bytes; the file has {}",
                          length, bytes.size()));
  const std::string_view text(
    reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length);
  const auto* data = bytes.data() + sizeof(length) + length;
  parameter_list tensors;
  for (const auto& item :
       parse_header(path, text, bytes.size() - sizeof(length) - length))
    tensors.emplace_back(item.name, copy_out(item, data));
  return tensors;
}

void load_parameters(const parameter_list& parameters,
                     const parameter_list& values, const std::string& path) {
  require_same_names(parameters, values, path);
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters) {
    auto target = parameter;
    target.copy_(*find(values, name));
  }
}

}  // namespace troupe
