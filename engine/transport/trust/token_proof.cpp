#include "troupe/engine/transport/trust/token_proof.hpp"

#include <algorithm>
#include <utility>

#include "troupe/engine/transport/trust/secret_file.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

constexpr std::string_view magic = "TRPH";
constexpr std::uint16_t version = 1;
constexpr std::size_t nonce_bytes = 32;

std::string make_hello(link_side own) {
  wire_writer hello;
  for (const auto letter : magic)
    hello.put(letter);
  hello.put(version);
  hello.put(own);
  hello.put(std::uint8_t{0});
  return hello.take() + random_bytes(nonce_bytes);
}

link_side other(link_side own) {
  return own == link_side::client ? link_side::server : link_side::client;
}

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

token_proof::token_proof(link_side own, std::string_view token)
  : own_(own),
    key_(derive_key(token, "troupe", "proof of the token 1")),
    own_hello_(make_hello(own)) {
  if (own == link_side::client)
    to_send_ = own_hello_;
}

std::string token_proof::to_send() {
  return std::exchange(to_send_, {});
}

std::size_t token_proof::wanted() const {
  if (waits_for_ == stage::done)
    return 0;
  return waits_for_ == stage::hello ? hello_bytes : proof_bytes;
}

void token_proof::look_at(std::string_view begun) const {
  const auto there = std::min(begun.size(), magic.size());
  if (waits_for_ == stage::hello
      && begun.substr(0, there) != magic.substr(0, there))
    refuse_stranger(begun);
}

void token_proof::take(std::string_view bytes) {
  if (bytes.size() != wanted())
    fail(error_code::internal, "a proof arrives in other parts");
  waits_for_ == stage::hello ? take_hello(bytes) : take_proof(bytes);
}

void token_proof::take_hello(std::string_view bytes) {
  if (!bytes.starts_with(magic))
    refuse_stranger(bytes);
  wire_reader reader(bytes.substr(magic.size()));
  const auto found = reader.get<std::uint16_t>();
  if (found != version)
    fail(error_code::transport,
         "the other side proves its token with version {}, this program with "
         "{}; run the same program",
         found, version);
  const auto side = reader.get<std::uint8_t>();
  if (side != static_cast<std::uint8_t>(other(own_))
      || reader.get<std::uint8_t>() != 0)
    fail(error_code::transport,
         "the other side proves its token for the wrong end of the link");
  other_hello_ = bytes;
  to_send_ = own_ == link_side::server ? own_hello_ : proof_of(own_);
  waits_for_ = stage::proof;
}

void token_proof::take_proof(std::string_view bytes) {
  if (!same_secret(std::string(bytes), proof_of(other(own_))))
    fail(error_code::transport,
         "the other side has another token; give all processes of the job the "
         "same one");
  if (own_ == link_side::server)
    to_send_ = proof_of(own_);
  waits_for_ = stage::done;
}

std::string token_proof::proof_of(link_side whose) const {
  const bool own_is_client = own_ == link_side::client;
  return keyed_hash(
    key_, std::string(whose == link_side::client ? "client" : "server")
            + (own_is_client ? own_hello_ : other_hello_)
            + (own_is_client ? other_hello_ : own_hello_));
}

}  // namespace troupe
