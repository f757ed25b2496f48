// Files of parameters.
#include "troupe/engine/checkpoint/safetensors.hpp"

#include "file_of_bytes.hpp"
#include "parse.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    std::size_t total = 0;
    for (const auto& [name, tensor] :
         read_safetensors(testing::file_of_bytes(bytes).path()))
      total += tensor.nbytes();
    testing::require(total <= bytes.size());
  });
}
