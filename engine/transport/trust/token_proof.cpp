#include "troupe/engine/transport/trust/token_proof.hpp"

#include "troupe/engine/transport/trust/keys.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

constexpr std::string_view magic = "TRPH";
constexpr std::uint16_t version = 1;
constexpr std::size_t nonce_bytes = 32;

/// Reports bytes that don't begin like a hello.
[[noreturn]] void refuse_stranger(std::string_view bytes) {
  const bool is_tls = bytes.front() == 0x15 || bytes.front() == 0x16;
  if (is_tls)
    fail(error_code::transport,
         "the other side uses TLS, this side a token: give both the same "
         "address, token and certificates");
  fail(error_code::transport,
       "the other side did not start by proving a token: it is not a process "
       "of a troupe job, or has no token");
}

}  // namespace

std::string token_hello(link_side own) {
  wire_writer hello;
  for (const auto letter : magic)
    hello.put(letter);
  hello.put(version);
  hello.put(own);
  hello.put(std::uint8_t{0});
  return hello.take() + random_bytes(nonce_bytes);
}

void require_token_hello(std::string_view bytes, link_side from) {
  if (!magic.starts_with(bytes.substr(0, magic.size())))
    refuse_stranger(bytes);
  if (bytes.size() < token_hello_bytes)
    return;
  wire_reader reader(bytes.substr(magic.size()));
  const auto found = reader.get<std::uint16_t>();
  if (found != version)
    fail(error_code::transport,
         "the other side proves its token with version {}, this program with "
         "{}; run the same program",
         found, version);
  const auto side = reader.get<std::uint8_t>();
  if (side != static_cast<std::uint8_t>(from)
      || reader.get<std::uint8_t>() != 0)
    fail(error_code::transport,
         "the other side proves its token for the wrong end of the link");
}

std::string token_proof(std::string_view token, link_side own,
                        std::string_view client_hello,
                        std::string_view server_hello) {
  std::string proved = own == link_side::client ? "client" : "server";
  proved.append(client_hello).append(server_hello);
  return keyed_hash(derive_key(token, "troupe", "proof of the token 1"),
                    proved);
}

}  // namespace troupe
