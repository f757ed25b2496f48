#pragma once

#include "troupe/engine/generation/generation.hpp"

namespace troupe {

/// One prompt and what has been generated behind it, token by token. One thread
/// at a time.
class continuation {
 public:
  /// The options must outlive this.
  continuation(generation_request request, const generation_options& options);

  const std::vector<std::int64_t>& prompt() const { return request_.ids; }
  const generated& so_far() const { return result_; }
  bool ended() const { return result_.end.has_value(); }
  /// The token that follows, for the last position's logits [vocabulary].
  std::int64_t choose(const at::Tensor& logits) const;
  /// Takes it up; of no effect behind the end.
  void append(std::int64_t id);
  /// Tokens that may follow at most.
  std::int64_t left() const;

 private:
  bool meets_stop();

  generation_request request_;
  const generation_options* options_;
  generated result_;
};

}  // namespace troupe
