#include "troupe/engine/stage/module/saved_tensors.hpp"

#include <c10/core/DispatchKey.h>
#include <c10/core/TensorOptions.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <mutex>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/accelerator.hpp"

#include <ATen/ops/empty.h>

namespace troupe {

std::shared_ptr<saved_tensors>& current_saved() {
  static thread_local std::shared_ptr<saved_tensors> current;
  return current;
}

namespace {

/// The hooks of one tensor that a graph saves.
class kept_tensor final : public torch::autograd::SavedVariableHooks {
 public:
  explicit kept_tensor(std::shared_ptr<saved_tensors> target)
    : target_(std::move(target)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    handle_ = std::exchange(target_, nullptr)->keep(tensor);
    is_parameter_ = handle_.is_same(tensor);
    version_ = tensor._version();
  }
  at::Tensor call_unpack_hook() override {
    if (is_parameter_ || handle_._version() == version_)
      return handle_;
    fail(error_code::op_failed,
         "a tensor that a forward has saved for its backward was changed in "
         "place meanwhile");
  }

 private:
  std::shared_ptr<saved_tensors> target_;
  at::Tensor handle_;
  bool is_parameter_ = false;
  std::uint32_t version_ = 0;
};

/// LibTorch asks its engine which hooks a saved tensor gets. This engine gives
/// them, and leaves all else to LibTorch's own.
class saving_engine final : public torch::autograd::Engine {
 public:
  explicit saving_engine(Engine& runs) : runs_(runs) {}

  torch::autograd::variable_list execute(
    const torch::autograd::edge_list& roots,
    const torch::autograd::variable_list& inputs, bool keep_graph,
    bool create_graph, bool accumulate_grad,
    const torch::autograd::edge_list& outputs) override {
    return runs_.execute(roots, inputs, keep_graph, create_graph,
                         accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
    const std::shared_ptr<torch::autograd::GraphTask>& task,
    std::shared_ptr<torch::autograd::Node> root,
    torch::autograd::InputBuffer&& inputs) override {
    return runs_.execute_with_graph_task(task, std::move(root),
                                         std::move(inputs));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata()
    override {
    return runs_.make_anomaly_metadata();
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks>
  get_default_saved_variable_hooks() override {
    if (const auto& target = current_saved())
      return std::make_unique<kept_tensor>(target);
    return runs_.get_default_saved_variable_hooks();
  }

 private:
  Engine& runs_;
};

/// Makes graphs ask the engine above, which a process has for its life.
void install_saving_engine() {
  static std::once_flag once;
  std::call_once(once, [] {
    static auto* const engine =
      new saving_engine(torch::autograd::Engine::get_default_engine());
    torch::autograd::set_default_engine_stub(
      []() -> torch::autograd::Engine& { return *engine; });
  });
}

const void* memory_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

/// The whole memory of a storage.
at::Tensor bytes_of(const c10::Storage& storage) {
  auto bytes = at::detail::make_tensor<c10::TensorImpl>(
    c10::Storage(storage),
    c10::DispatchKeySet(
      c10::computeDispatchKey(c10::kByte, std::nullopt, storage.device())),
    caffe2::TypeMeta::Make<std::uint8_t>());
  bytes.unsafeGetTensorImpl()->set_sizes_contiguous(
    {static_cast<std::int64_t>(storage.nbytes())});
  return bytes;
}

/// Puts other memory behind a handle, and behind no other.
void set_memory(c10::TensorImpl& handle, c10::Storage memory) {
  handle.set_allow_tensor_metadata_change(true);
  handle.set_storage_keep_dtype(std::move(memory));
}

c10::Storage no_memory(c10::Device device) {
  return c10::make_intrusive<c10::StorageImpl>(
    c10::StorageImpl::use_byte_size_t{}, 0, c10::DataPtr(nullptr, device),
    nullptr, false);
}

}  // namespace

/// A copy of one storage, and the handles that view it.
struct saved_tensors::copied_memory {
  at::Tensor bytes;
  std::vector<
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>>
    handles;
};

saved_tensors::saved_tensors(const tensor_list& stays) {
  install_saving_engine();
  for (const auto& each : stays)
    if (each.defined() && each.has_storage())
      stays_.insert(memory_of(each));
}

saved_tensors::~saved_tensors() = default;

at::Tensor saved_tensors::keep(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()
      || stays_.contains(memory_of(tensor)))
    return tensor.defined() && !tensor.is_leaf() ? tensor.tensor_data()
                                                 : tensor;
  auto handle = tensor.tensor_data();
  handles_.emplace_back(handle.getIntrusivePtr());
  return handle;
}

void saved_tensors::drop_later(const at::Tensor& handle) {
  if (handle.defined() && handle.has_storage())
    dropped_.push_back(handle);
}

void saved_tensors::to_host(rank_device* device) {
  std::map<const void*, std::size_t> indices;
  for (auto& weak : std::exchange(handles_, {})) {
    const auto handle = weak.lock();
    if (!handle)
      continue;
    const auto& storage = handle->storage();
    const auto [index, is_new] =
      indices.emplace(storage.unsafeGetStorageImpl(), on_host_.size());
    if (is_new) {
      const auto bytes = bytes_of(storage);
      on_host_.push_back({device
                            ? troupe::to_host(bytes, device->offloads()).tensor
                            : bytes.clone(),
                          {}});
    }
    set_memory(*handle, no_memory(storage.device()));
    on_host_[index->second].handles.push_back(std::move(weak));
  }
  for (const auto& each : std::exchange(dropped_, {}))
    set_memory(*each.unsafeGetTensorImpl(), no_memory(each.device()));
}

void saved_tensors::to_device(rank_device* device) {
  tensor_list back;
  for (const auto& memory : on_host_)
    back.push_back(
      device ? at::empty(
        memory.bytes.sizes(),
        memory.bytes.options().device(device->device()).pinned_memory(false))
             : memory.bytes.clone());
  if (device) {
    auto& stream = device->reloads();
    stream.wait_for(*device->compute().record());
    for (std::size_t i = 0; i < back.size(); ++i) {
      stream.uses(back[i]);
      stream.uses(on_host_[i].bytes);
      copy_to_device(on_host_[i].bytes, back[i], stream);
    }
  }
  for (std::size_t i = 0; i < back.size(); ++i)
    for (auto& weak : on_host_[i].handles)
      if (const auto handle = weak.lock()) {
        set_memory(*handle, back[i].storage());
        handles_.push_back(std::move(weak));
      }
  on_host_.clear();
}

std::int64_t saved_tensors::bytes_on_host() const {
  std::int64_t bytes = 0;
  for (const auto& each : on_host_)
    bytes += static_cast<std::int64_t>(each.bytes.nbytes());
  return bytes;
}

at::Tensor parameter_of(const at::Tensor& saved) {
  const auto accumulator =
    torch::autograd::impl::try_get_grad_accumulator(saved);
  const auto* node =
    dynamic_cast<const torch::autograd::AccumulateGrad*>(accumulator.get());
  return node ? node->variable : saved;
}

}  // namespace troupe
