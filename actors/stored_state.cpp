#include "troupe/actors/stored_state.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstring>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/update/optimizer_rule.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

at::Tensor copied_to_host(const at::Tensor& value) {
  return value.detach().to(at::kCPU, value.scalar_type(),
                           /*non_blocking=*/false, /*copy=*/true);
}

const std::string& stored_name(const std::string& name,
                               const alias_names& aliases) {
  const auto alias = aliases.find(name);
  return alias == aliases.end() ? name : alias->second;
}

using piece_names = std::vector<std::pair<std::size_t, std::string>>;

at::Tensor bytes_of(const std::string& text) {
  auto bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

}  // namespace

tensor_list packed(const optimizer_state& state) {
  piece_names names;
  tensor_list tensors(1);
  for (std::size_t i = 0; i < state.size(); ++i)
    for (const auto& [name, tensor] : state[i].tensors) {
      names.emplace_back(i, name);
      tensors.push_back(tensor);
    }
  tensors[0] = bytes_of(to_wire(names));
  return tensors;
}

optimizer_state unpacked(const tensor_list& tensors, std::size_t pieces) {
  const auto& names = tensors.at(0);
  optimizer_state state(pieces);
  std::size_t next = 1;
  for (auto& [piece, name] : from_wire<piece_names>(
         {static_cast<const char*>(names.const_data_ptr()), names.nbytes()}))
    state.at(piece).tensors.emplace_back(std::move(name), tensors.at(next++));
  return state;
}

parameter_list host_copies(const parameter_list& model_state,
                           const optimizer_state& state) {
  const at::NoGradGuard no_grad;
  parameter_list copies;
  for (const auto& [name, value] : model_state)
    copies.emplace_back(name, copied_to_host(value));
  for (const auto& of : state)
    for (const auto& [name, value] : of.tensors)
      copies.emplace_back(state_name(name, of.parameter),
                          copied_to_host(value));
  return copies;
}

void restore_model(const stored_checkpoint& from,
                   const parameter_list& model_state,
                   const alias_names& aliases) {
  parameter_list values;
  for (const auto& [name, value] : model_state) {
    const auto& stored = stored_name(name, aliases);
    const auto master = state_name(std::string(master_state_name), stored);
    const bool in_full = value.scalar_type() == at::kFloat && from.find(master);
    values.emplace_back(name, from.read(in_full ? master : stored));
  }
  load_parameters(model_state, values, from.folder());
}

optimizer_state stored_state(const stored_checkpoint& from, optimizer_state own,
                             const alias_names& aliases,
                             const parameter_dtypes& dtypes) {
  const std::string master(master_state_name);
  const bool with_masters =
    dtypes.parameters.value_or(at::kFloat) != at::kFloat;
  std::map<std::string, parameter_list> stored;
  for (const auto& of : own)
    stored[stored_name(of.parameter, aliases)];
  for (const auto& name : from.names())
    if (const auto parts = split_state_name(name);
        parts && stored.contains(parts->parameter))
      stored[parts->parameter].emplace_back(parts->tensor, from.read(name));
  for (auto& of : own) {
    const auto& name = stored_name(of.parameter, aliases);
    of.tensors = stored[name];
    if (with_masters && !of.tensors.empty()
        && from.find(state_name(master, name)) == nullptr)
      of.tensors.emplace_back(master, from.read(name).to(at::kFloat));
  }
  return own;
}

std::int64_t elements_of(const parameter_list& model_state,
                         const alias_names& aliases) {
  std::int64_t elements = 0;
  for (const auto& [name, value] : without_aliases(model_state, aliases))
    elements += value.numel();
  return elements;
}

void require_elements(const stored_checkpoint& from, std::int64_t elements) {
  std::int64_t stored = 0;
  for (const auto& name : from.names())
    if (!is_state_name(name))
      stored += from.find(name)->elements();
  if (stored != elements)
    fail(error_code::invalid_checkpoint,
         "{}: holds {} elements of parameters and buffers, the model has {}; "
         "check the model's flags",
         from.folder(), stored, elements);
}

}  // namespace troupe
