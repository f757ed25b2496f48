#include "troupe/engine/transport/introduction.hpp"

#include <utility>

#include "troupe/base/error.hpp"

namespace troupe {

using state = stream_progress::state;

namespace {

/// A satisfied server's first message within TLS: only then does a client know
/// that its certificate was accepted.
const std::string welcome = "+";
/// Sent by both sides without trust, so that each knows that the other is
/// there, not only a relay; longer than the beginning of a TLS record.
const std::string plain_hello = "troupe, in plain text\n";

}  // namespace

introduction::introduction(link_side own, const trust& trusted) {
  if (trusted.kind == trust_kind::token) {
    proof_.emplace(own, trusted.token);
    out_ = proof_->to_send();
  } else if (trusted.tls == nullptr) {
    out_ = expected_ = plain_hello;
  } else {
    (own == link_side::server ? out_ : expected_) = welcome;
  }
  wanted_.resize(proof_ ? proof_->wanted() : expected_.size());
}

state introduction::advance(byte_stream& over) {
  for (;;) {
    auto need = send(over);
    if (need == state::moved && wanted_.empty())
      return need;
    if (need == state::moved)
      need = receive(over);
    if (need != state::moved)
      return need;
  }
}

std::string introduction::at_end() const {
  return answered_
           ? "the other side closed the connection instead of proving its "
             "token: it probably has another token; give all processes of the "
             "job the same one"
           : "the other side closed the connection before sending anything: it "
             "is not a process of this job, or has other credentials";
}

state introduction::send(byte_stream& over) {
  while (!out_.empty()) {
    const iovec part{out_.data(), out_.size()};
    const auto progress = over.write({&part, 1});
    if (progress.what != state::moved)
      return progress.what;
    out_.erase(0, progress.bytes);
  }
  return state::moved;
}

state introduction::receive(byte_stream& over) {
  const auto progress = over.read(wanted_.data() + got_, wanted_.size() - got_);
  if (progress.what != state::moved)
    return progress.what;
  answered_ = true;
  got_ += progress.bytes;
  if (proof_)
    proof_->look_at({wanted_.data(), got_});
  if (got_ == wanted_.size())
    take(std::exchange(wanted_, {}));
  return state::moved;
}

void introduction::take(const std::string& bytes) {
  got_ = 0;
  if (!proof_ && bytes != expected_)
    fail(error_code::transport,
         "the other side does not start like a process of a troupe job; run "
         "the same program");
  if (!proof_)
    return;
  proof_->take(bytes);
  out_ = proof_->to_send();
  wanted_.resize(proof_->wanted());
}

}  // namespace troupe
