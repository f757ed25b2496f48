#include "troupe/engine/checkpoint/safetensors.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/checkpoint/safetensors_header.hpp"
#include "troupe/engine/checkpoint/sha256.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

std::string header_of(const std::string& path, const parameter_list& tensors,
                      const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  // Its own functions look for a name among all others.
  auto& members = header.get_ref<json::object_t&>();
  members.reserve(tensors.size() + 1);
  std::unordered_set<std::string_view> names;
  if (!metadata.empty()) {
    members.emplace_back("__metadata__", metadata);
    names.insert("__metadata__");
  }
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto end = offset + tensor.nbytes();
    if (!names.insert(name).second)
      refuse_checkpoint(path, fmt::format("two tensors are named '{}'", name));
    members.emplace_back(
      name, json{{"dtype", safetensors_dtype(path, tensor.scalar_type())},
                 {"shape", tensor.sizes().vec()},
                 {"data_offsets", {offset, end}}});
    offset = end;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > largest_safetensors_header)
    refuse_checkpoint(
      path,
      fmt::format("names and shapes of {} tensors need a header of {} "
                  "bytes; readers of safetensors accept at most {}",
                  tensors.size(), text.size(), largest_safetensors_header));
  return text;
}

/// Writes a file and sums it up.
class summed_file {
 public:
  explicit summed_file(const std::string& path) : file_(path) {}

  void write(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    file_.write({static_cast<const char*>(data), size});
    sum_.add({bytes, size});
    written_.bytes += size;
  }
  written_file commit() {
    file_.commit();
    written_.sha256 = sum_.digest();
    return written_;
  }

 private:
  atomic_file file_;
  sha256 sum_;
  written_file written_;
};

using named_tensors = std::unordered_map<std::string_view, const at::Tensor*>;

named_tensors by_name(const parameter_list& tensors) {
  named_tensors found;
  for (const auto& [name, tensor] : tensors)
    found.emplace(name, &tensor);
  return found;
}

/// Returns the values by their names.
named_tensors require_fit(const parameter_list& parameters,
                          const parameter_list& values,
                          const std::string& path) {
  auto named = by_name(values);
  for (const auto& [name, parameter] : parameters) {
    const auto found = named.find(name);
    if (found == named.end())
      refuse_checkpoint(path,
                        fmt::format("lacks '{}', which the model has", name));
    const auto* value = found->second;
    if (!is_loadable(value->scalar_type()))
      refuse_checkpoint(
        path, fmt::format("'{}' is {}, a dtype that no model is trained from; "
                          "convert it to F32, F16 or BF16",
                          printable(name), describe(*value)));
    if (value->is_floating_point() != parameter.is_floating_point()
        || value->is_complex() != parameter.is_complex())
      refuse_checkpoint(path,
                        fmt::format("'{}' is {}, the model's is {}", name,
                                    describe(*value), describe(parameter)));
    if (value->sizes() != parameter.sizes())
      refuse_checkpoint(
        path, fmt::format("'{}' is {}, the model's is {}; check --d-model, "
                          "--layers and --seq",
                          name, describe(*value), describe(parameter)));
    const auto dtype = parameter.scalar_type();
    if (overflows(*value, dtype))
      refuse_checkpoint(
        path,
        fmt::format("'{}' is {} with values beyond the range of {}, "
                    "which the model has",
                    printable(name), describe(*value), c10::toString(dtype)));
  }
  const auto expected = by_name(parameters);
  for (const auto& [name, value] : values)
    if (!expected.contains(name))
      refuse_checkpoint(path,
                        fmt::format("has '{}', which the model lacks", name));
  return named;
}

}  // namespace

written_file write_safetensors(
  const std::string& path, const parameter_list& tensors,
  const std::map<std::string, std::string>& metadata) {
  const auto header = header_of(path, tensors, metadata);
  const std::uint64_t length = header.size();
  summed_file file(path);
  file.write(&length, sizeof(length));
  file.write(header.data(), header.size());
  for (const auto& [name, tensor] : tensors) {
    const auto dense = tensor.detach().contiguous().cpu();
    file.write(dense.const_data_ptr(), dense.nbytes());
  }
  return file.commit();
}

parameter_list read_safetensors(const std::string& path) {
  const safetensors_file file(path);
  parameter_list tensors;
  for (const auto& entry : file.entries())
    tensors.emplace_back(entry.name, file.read(entry));
  return tensors;
}

bool overflows(const at::Tensor& value, at::ScalarType to) {
  const auto from = value.scalar_type();
  if (!value.is_floating_point() || c10::promoteTypes(from, to) == to)
    return false;
  return value.isfinite().logical_and_(value.to(to).isinf()).any().item<bool>();
}

void load_parameters(const parameter_list& parameters,
                     const parameter_list& values, const std::string& path) {
  const at::NoGradGuard no_grad;
  const auto fitting = require_fit(parameters, values, path);
  for (const auto& [name, parameter] : parameters) {
    auto target = parameter;
    target.copy_(*fitting.at(name));
  }
}

}  // namespace troupe
