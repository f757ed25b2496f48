// For LD_PRELOAD: LibTorch's gelu throws once for each time that the file of
// FAILING_OP is there, in whichever process takes it first. Links nothing of
// LibTorch, as programs that have none load it, too.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string_view>

// at::_ops::gelu::call(at::Tensor const&, std::string_view)
#define GELU                                                            \
  "_ZN2at4_ops4gelu4callERKNS_6TensorESt17basic_string_viewIcSt11char_" \
  "traitsIcEE"

/// A tensor as it is returned: in memory, as it is not trivial.
class returned_tensor {
 public:
  ~returned_tensor();

 private:
  void* impl_;
};

returned_tensor gelu(const void* self, std::string_view approximate) asm(GELU);

returned_tensor gelu(const void* self, std::string_view approximate) {
  const auto* file = std::getenv("FAILING_OP");
  if (file && ::unlink(file) == 0)
    throw std::runtime_error("gelu was made to fail");
  static const auto next =
    reinterpret_cast<decltype(&gelu)>(::dlsym(RTLD_NEXT, GELU));
  return next(self, approximate);
}
