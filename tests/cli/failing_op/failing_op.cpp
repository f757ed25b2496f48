// For LD_PRELOAD: LibTorch's add_ throws once for each time that the file of
// FAILING_OP is there, in whichever process takes it first. Links nothing of
// LibTorch, as programs that have none load it, too.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

// at::_ops::add__Tensor::call(at::Tensor&, at::Tensor const&, c10::Scalar
// const&), which returns the first one.
#define ADD "_ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE"

void* add(void* self, const void* other, const void* alpha) asm(ADD);

void* add(void* self, const void* other, const void* alpha) {
  const auto* file = std::getenv("FAILING_OP");
  if (file && ::unlink(file) == 0)
    throw std::runtime_error("add_ was made to fail");
  static const auto next =
    reinterpret_cast<decltype(&add)>(::dlsym(RTLD_NEXT, ADD));
  return next(self, other, alpha);
}
