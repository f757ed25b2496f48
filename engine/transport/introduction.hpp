#pragma once

#include <optional>
#include <string>

#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/token_proof.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// The bytes that two ends exchange first, to authenticate. Never blocks.
class introduction {
 public:
  introduction(link_side own, const trust& trusted);

  /// Advances as far as possible. Returns `moved` once all is exchanged;
  /// otherwise what is needed, or `ended`. Throws `transport`, saying why the
  /// other side isn't trusted.
  stream_progress::state advance(byte_stream& over);
  /// Whether the other side has said something.
  bool answered() const { return answered_; }
  /// The error text if the other side has `ended`.
  std::string at_end() const;

 private:
  stream_progress::state send(byte_stream& over);
  stream_progress::state receive(byte_stream& over);
  void take(const std::string& bytes);

  std::optional<token_proof> proof_;
  std::string out_, wanted_, expected_;
  std::size_t got_ = 0;  // of the wanted bytes
  bool answered_ = false;
};

}  // namespace troupe
