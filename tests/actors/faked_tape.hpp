#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::testing {

/// A tensor that an operator was given, which may have been there before the
/// recording: then it is not kept alive.
class kept_tensor {
 public:
  kept_tensor(const at::Tensor& tensor, bool keeps);
  /// Throws if it is gone.
  at::Tensor get(const std::string& op) const;

 private:
  at::Tensor own_;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta type_;
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_ = 0;
};

/// Operators in the order in which they were called, to be called again.
class faked_tape {
 public:
  /// Calls the operator, whose inputs are on the stack, and records it.
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
            torch::jit::Stack& stack);
  /// Overwrites the tensors that were made, as if nothing had run.
  void spoil();
  /// On the stream that the thread has entered.
  void run() const;
  /// Releases all tensors; returns how many have other holders.
  std::size_t clear();

 private:
  struct argument {
    c10::IValue value;  // where it holds no tensors
    std::vector<kept_tensor> tensors;
    std::vector<bool> there;  // of an optional list
  };
  struct entry {
    c10::OperatorHandle op;
    std::vector<argument> arguments;
    std::vector<std::pair<std::size_t, at::Tensor>> made;  // by output
    std::vector<std::size_t> changed;                      // by argument
  };

  argument keep(const c10::IValue& value, const std::string& op);
  kept_tensor keep(const at::Tensor& tensor, const std::string& op);
  void save(const at::Tensor& tensor);
  void note_made(entry& of, const torch::jit::Stack& before,
                 const torch::jit::Stack& stack);
  static void run(const entry& of);

  std::vector<entry> entries_;
  std::map<const c10::StorageImpl*, c10::Storage> made_;
  /// What was there before, and changed: its bytes.
  std::map<const c10::StorageImpl*, std::pair<c10::Storage, std::string>>
    before_;
};

}  // namespace troupe::testing
