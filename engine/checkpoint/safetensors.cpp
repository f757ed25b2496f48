#include "troupe/engine/checkpoint/safetensors.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/safetensors_header.hpp"
#include "troupe/engine/data/mapped_file.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t max_header_bytes = 100'000'000;

std::string header_of(const std::string& path, const parameter_list& tensors,
                      const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto end = offset + tensor.nbytes();
    if (header.contains(name))
      refuse_checkpoint(path, fmt::format("two tensors are named '{}'", name));
    header[name] = {{"dtype", safetensors_dtype(path, tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

at::Tensor copy_out(const safetensors_entry& item, const std::byte* data) {
  auto tensor = at::empty(item.shape, item.dtype);
  if (tensor.numel() > 0)
    std::memcpy(tensor.mutable_data_ptr(), data + item.begin,
                item.end - item.begin);
  return tensor;
}

const at::Tensor* find(const parameter_list& values, const std::string& name) {
  const auto found =
    std::ranges::find(values, name, &parameter_list::value_type::first);
  return found == values.end() ? nullptr : &found->second;
}

void require_same_names(const parameter_list& parameters,
                        const parameter_list& values, const std::string& path) {
  for (const auto& [name, parameter] : parameters) {
    const auto* value = find(values, name);
    if (!value)
      refuse_checkpoint(path, fmt::format("lacks the parameter '{}'", name));
    if (value->sizes() != parameter.sizes())
      refuse_checkpoint(
        path, fmt::format("'{}' is {}, the model's is {}; check --d-model, "
                          "--layers and --seq",
                          name, describe(*value), describe(parameter)));
  }
  for (const auto& [name, value] : values)
    if (!find(parameters, name))
      refuse_checkpoint(path,
                        fmt::format("has '{}', which the model lacks", name));
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
    refuse_checkpoint(path, "is too short for a safetensors file");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > max_header_bytes || length > bytes.size() - sizeof(length))
    refuse_checkpoint(
      path, fmt::format("announces a header of {} bytes; the file has {}",
                        length, bytes.size()));
  const std::string_view text(
    reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length);
  const auto* data = bytes.data() + sizeof(length) + length;
  parameter_list tensors;
  for (const auto& item : parse_safetensors_header(
         path, text, bytes.size() - sizeof(length) - length))
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
