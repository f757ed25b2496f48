#include "faked_tape.hpp"

#include <ATen/core/List.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>

#include "each_tensor.hpp"
#include "race_watch.hpp"

namespace troupe::testing {

namespace {

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

torch::jit::Stack inputs_on(const torch::jit::Stack& stack,
                            const c10::OperatorHandle& op) {
  const auto count =
    static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  return {stack.end() - count, stack.end()};
}

}  // namespace

kept_tensor::kept_tensor(const at::Tensor& tensor, bool keeps)
  : storage_(c10::intrusive_ptr<c10::StorageImpl>()) {
  if (keeps) {
    own_ = tensor;
    return;
  }
  storage_ = tensor.storage().getWeakStorageImpl();
  keys_ = c10::DispatchKeySet(c10::DispatchKey::CPU);
  type_ = tensor.dtype();
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
  offset_ = tensor.storage_offset();
}

at::Tensor kept_tensor::get(const std::string& op) const {
  if (keys_.empty())
    return own_;
  auto storage = storage_.lock();
  TORCH_CHECK(storage, op, " reads memory that is gone since it was recorded");
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
    c10::Storage(std::move(storage)), keys_, type_);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes_, strides_,
                                                      offset_);
  return tensor;
}

kept_tensor faked_tape::keep(const at::Tensor& tensor, const std::string& op) {
  const bool own = !tensor.defined() || is_number(tensor)
                   || outputs_.contains(storage_of(tensor));
  TORCH_CHECK(own || active_watch()->is_on_device(tensor), op,
              " reads memory of the host while it is recorded");
  return {tensor, own};
}

faked_tape::argument faked_tape::keep(const c10::IValue& value,
                                      const std::string& op) {
  argument result;
  if (value.isTensor() || value.isTensorList()) {
    each_tensor(value, [&](const at::Tensor& tensor) {
      result.tensors.push_back(keep(tensor, op));
    });
  } else if (value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef()) {
      result.there.push_back(item.isTensor());
      if (item.isTensor())
        result.tensors.push_back(keep(item.toTensor(), op));
    }
  }
  if (value.isTensor())
    return result;
  result.value = value;
  if (!result.tensors.empty())  // a list, which is rebuilt
    result.value = c10::IValue(value.isTensorList());
  return result;
}

/// Saves the bytes of memory that existed before the recording, before an
/// operator changes them.
void faked_tape::save(const at::Tensor& tensor) {
  if (!tensor.defined() || outputs_.contains(storage_of(tensor)))
    return;
  const auto& storage = tensor.storage();
  before_.try_emplace(
    storage_of(tensor), storage,
    std::string(static_cast<const char*>(storage.data()), storage.nbytes()));
}

void faked_tape::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack& stack) {
  const auto& name = op.schema().name();
  TORCH_CHECK(!op.hasTag(at::Tag::data_dependent_output)
                && !op.hasTag(at::Tag::dynamic_output_shape),
              name, " makes the host wait for a value while it is recorded");
  const auto before = inputs_on(stack, op);
  entry recorded{op, {}, {}, {}};
  for (std::size_t i = 0; i < before.size(); ++i) {
    recorded.arguments.push_back(keep(before[i], name));
    const auto* alias = op.schema().arguments()[i].alias_info();
    if (!alias || !alias->isWrite())
      continue;
    recorded.changed.push_back(i);
    each_tensor(before[i], [this](const at::Tensor& tensor) { save(tensor); });
  }
  op.redispatchBoxed(keys, &stack);
  note_outputs(recorded, before, stack);
  if (!recorded.outputs.empty() || !recorded.changed.empty())
    entries_.push_back(std::move(recorded));
}

/// Notes outputs in memory of their own: neither views nor changed inputs.
void faked_tape::note_outputs(entry& of, const torch::jit::Stack& before,
                              const torch::jit::Stack& stack) {
  std::set<const c10::StorageImpl*> inputs;
  for (const auto& value : before)
    each_tensor(value, [&](const at::Tensor& tensor) {
      if (tensor.defined())
        inputs.insert(storage_of(tensor));
    });
  std::size_t number = 0;
  for (const auto& value : stack)
    each_tensor(value, [&](const at::Tensor& tensor) {
      const auto at = number++;
      if (!tensor.defined() || inputs.contains(storage_of(tensor)))
        return;
      outputs_.emplace(storage_of(tensor), tensor.storage());
      of.outputs.emplace_back(at, tensor);
    });
}

void faked_tape::spoil() {
  for (const auto& [key, storage] : outputs_)
    if (storage.nbytes() > 0)  // NaN in each type that has NaN
      std::memset(storage.mutable_data(), 0xff, storage.nbytes());
  for (const auto& [key, was] : before_)
    std::ranges::copy(was.second, static_cast<char*>(was.first.mutable_data()));
  before_.clear();
}

std::size_t faked_tape::clear() {
  entries_.clear();
  const auto leftover = std::ranges::count_if(
    outputs_, [](const auto& each) { return each.second.use_count() > 1; });
  outputs_.clear();
  return static_cast<std::size_t>(leftover);
}

void faked_tape::run() const {
  const at::RecordFunctionGuard unseen(false);  // the watch is told below
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  for (const auto& each : entries_)
    run(each);
}

void faked_tape::run(const entry& of) {
  const auto& name = of.op.schema().name();
  torch::jit::Stack stack;
  std::vector<at::Tensor> reads, writes;
  for (std::size_t i = 0; i < of.arguments.size(); ++i) {
    const auto& [value, sources, there] = of.arguments[i];
    const bool changes = std::ranges::count(of.changed, i) > 0;
    std::vector<at::Tensor> tensors;
    for (const auto& each : sources)
      tensors.push_back(each.get(name));
    std::ranges::copy(tensors, std::back_inserter(changes ? writes : reads));
    if (!there.empty()) {
      c10::List<std::optional<at::Tensor>> list;
      std::size_t next = 0;
      for (const bool is_there : there)
        list.push_back(is_there ? std::optional(tensors[next++])
                                : std::nullopt);
      stack.emplace_back(std::move(list));
    } else if (value.isBool() && !sources.empty()) {
      stack.emplace_back(c10::List<at::Tensor>(tensors));
    } else {
      stack.push_back(sources.empty() ? value : c10::IValue(tensors[0]));
    }
  }
  of.op.callBoxed(&stack);
  std::vector<at::Tensor> outputs;
  for (const auto& value : stack)
    each_tensor(value, [&](const auto& each) { outputs.push_back(each); });
  for (const auto& [at, tensor] : of.outputs) {
    tensor.copy_(outputs[at]);
    writes.push_back(tensor);
  }
  for (const auto* used : {&reads, &writes})
    for (const auto& tensor : *used)
      active_watch()->uses(current_stream, tensor);
  active_watch()->ran(name.c_str(), reads, writes);
}

}  // namespace troupe::testing
