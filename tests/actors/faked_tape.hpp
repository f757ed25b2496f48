#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::testing {

/// An operator's input tensor. It is not kept alive if it existed before the
/// recording.
class kept_tensor {
 public:
  kept_tensor(const at::Tensor& tensor, bool keeps);
  /// Throws if the tensor no longer exists.
  at::Tensor get(const std::string& op) const;

 private:
  at::Tensor own_;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta type_;
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_ = 0;
};

/// Operators in the order of their calls, to be replayed.
class faked_tape {
 public:
  /// Calls the operator, whose inputs are on the stack, and records it.
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
            torch::jit::Stack& stack);
  /// Overwrites the tensors that were made during the recording, as if nothing
  /// had run.
  void spoil();
  /// Replays the operators on the stream that the thread has entered.
  void run() const;
  /// Releases all tensors; returns how many have other owners.
  std::size_t clear();

 private:
  struct argument {
    c10::IValue value;  // if it holds no tensors
    std::vector<kept_tensor> tensors;
    std::vector<bool> there;  // which elements of an optional list are present
  };
  struct entry {
    c10::OperatorHandle op;
    std::vector<argument> arguments;
    std::vector<std::pair<std::size_t, at::Tensor>> outputs;  // by output
    std::vector<std::size_t> changed;                         // by argument
  };

  argument keep(const c10::IValue& value, const std::string& op);
  kept_tensor keep(const at::Tensor& tensor, const std::string& op);
  void save(const at::Tensor& tensor);
  void note_outputs(entry& of, const torch::jit::Stack& before,
                    const torch::jit::Stack& stack);
  static void run(const entry& of);

  std::vector<entry> entries_;
  std::map<const c10::StorageImpl*, c10::Storage> outputs_;
  /// The original bytes of changed memory that existed before the recording.
  std::map<const c10::StorageImpl*, std::pair<c10::Storage, std::string>>
    before_;
};

}  // namespace troupe::testing
