// How libFuzzer mutates inputs: by bytes, and equally often by their tokens.
#include <cstring>

#include "token_mutator.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed) {
  if (seed % 2 == 0 || size == 0)
    return LLVMFuzzerMutate(data, size, most);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto changed = troupe::testing::token_mutator(seed).mutate(text, text);
  const auto length = std::min(changed.size(), most);
  std::memcpy(data, changed.data(), length);
  return length;
}
