#include "troupe/engine/device/operators.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

at::Tensor doubled(const at::Tensor& x) {
  return x * 2;
}

void define(torch::Library& library) {
  add_operator(library, "test_doubled", "test_doubled(Tensor x) -> Tensor",
               doubled);
  add_operator(library, "test_doubled_on_gpu",
               "test_doubled_on_gpu(Tensor x) -> Tensor", doubled,
               c10::DispatchKey::CUDA);
}

c10::OperatorHandle operator_named(const char* name) {
  define_operators("troupe::test_doubled", define);
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

}  // namespace

TEST_CASE("calls of operators go past autograd to their function") {
  const auto on_cpu = operator_named("troupe::test_doubled");
  const auto on_gpu = operator_named("troupe::test_doubled_on_gpu");
  CHECK(on_cpu.isKernelFallthroughKernel(c10::DispatchKey::Autograd));
  CHECK(on_gpu.isKernelFallthroughKernel(c10::DispatchKey::Autograd));
  CHECK(on_gpu.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
  CHECK_FALSE(on_gpu.hasKernelForDispatchKey(c10::DispatchKey::CPU));
  const auto call = on_cpu.typed<decltype(doubled)>();
  CHECK(call.call(at::ones({3})).equal(at::ones({3}) * 2));
}

TEST_CASE("operators are defined once") {
  operator_named("troupe::test_doubled");
  CHECK_NOTHROW(operator_named("troupe::test_doubled"));
}
