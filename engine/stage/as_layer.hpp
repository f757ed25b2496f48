#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe {

/// A module that maps tensors to tensors as a stage_module. Its parameters,
/// buffers and submodules keep their names.
class adapted_module final : public stage_module {
 public:
  using function = std::function<tensor_list(const tensor_list& inputs)>;

  /// `run` calls the module's `forward`.
  adapted_module(std::shared_ptr<torch::nn::Module> module, function run);

  tensor_list forward(const tensor_list& inputs) override {
    return run_(inputs);
  }
  void train(bool on = true) override;

 private:
  std::shared_ptr<torch::nn::Module> module_;
  function run_;
};

/// While it lives, the text determines the seed of LibTorch's default generator
/// of the CPU, from which other threads must not draw.
class seeded_scope {
 public:
  explicit seeded_scope(const std::string& text);
  ~seeded_scope();
  seeded_scope(const seeded_scope&) = delete;
  seeded_scope& operator=(const seeded_scope&) = delete;

 private:
  at::Tensor former_state_;
};

namespace adapting {

inline tensor_list tensors_of(at::Tensor value) {
  return {std::move(value)};
}
inline tensor_list tensors_of(tensor_list values) {
  return values;
}
template <class... Tensors>
tensor_list tensors_of(const std::tuple<Tensors...>& values) {
  return std::apply([](const auto&... each) { return tensor_list{each...}; },
                    values);
}

/// Throws `invalid_argument`.
[[noreturn]] void refuse_inputs(const torch::nn::Module& module,
                                std::size_t inputs);

template <class Module>
tensor_list run(Module& module, const tensor_list& in) {
  if constexpr (requires { module.forward(in[0]); })
    if (in.size() == 1)
      return tensors_of(module.forward(in[0]));
  if constexpr (requires { module.forward(in[0], in[1]); })
    if (in.size() == 2)
      return tensors_of(module.forward(in[0], in[1]));
  if constexpr (requires { module.forward(in[0], in[1], in[2]); })
    if (in.size() == 3)
      return tensors_of(module.forward(in[0], in[1], in[2]));
  if constexpr (requires { module.forward(in); })
    return tensors_of(module.forward(in));
  refuse_inputs(module, in.size());
}

}  // namespace adapting

/// A layer of any module of LibTorch's whose `forward` maps one to three
/// tensors, or a tensor_list, to a tensor, a tuple of them or a tensor_list:
///
///     as_layer("up", [] { return torch::nn::Linear(16, 64); })
///
/// `make` returns a holder, as here, or a shared_ptr of the module. It may draw
/// initial parameters from LibTorch's default generator, which is seeded by the
/// layer's name meanwhile, so that each call makes the same bits.
template <class Factory>
layer as_layer(const std::string& name, Factory make) {
  return {.name = name, .make = [name, make = std::move(make)] {
            const seeded_scope seeded(name);
            auto holder = make();
            auto module = [&] {
              if constexpr (requires { holder.ptr(); })
                return holder.ptr();
              else
                return holder;
            }();
            auto* target = module.get();
            return std::make_shared<adapted_module>(
              std::move(module), [target](const tensor_list& inputs) {
                return adapting::run(*target, inputs);
              });
          }};
}

}  // namespace troupe
