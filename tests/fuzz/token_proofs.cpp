// Hellos and proofs of a token, at either end.
#include "parse.hpp"
#include "troupe/engine/transport/trust/token_proof.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const bool serves = testing::take_choice(bytes) % 2 == 0;
    const auto from = serves ? link_side::client : link_side::server;
    if (bytes.size() < token_hello_bytes)
      return;
    const auto hello = bytes.substr(0, token_hello_bytes);
    require_token_hello(hello, from);
    // Nobody guesses the proof.
    const auto own = token_hello(other(from));
    testing::require(bytes.substr(hello.size(), token_proof_bytes)
                     != token_proof("a-token-of-the-fuzzer-51b2", from,
                                    serves ? hello : own,
                                    serves ? own : hello));
  });
}
