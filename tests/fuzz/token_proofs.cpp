// Hellos and proofs of a token, at either end.
#include "parse.hpp"
#include "troupe/engine/transport/trust/token_proof.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const bool serves = testing::take_choice(bytes) % 2 == 0;
    token_proof proof(serves ? link_side::server : link_side::client,
                      "a-token-of-the-fuzzer-51b2");
    while (proof.wanted() > 0 && bytes.size() >= proof.wanted()) {
      const auto part = bytes.substr(0, proof.wanted());
      bytes.remove_prefix(part.size());
      proof.take(part);
      proof.to_send();
    }
    testing::require(proof.wanted() > 0);  // nobody guesses the proof
  });
}
