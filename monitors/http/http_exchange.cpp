#include "troupe/monitors/http/http_exchange.hpp"

#include "troupe/base/json.hpp"

namespace troupe {

http_response json_response(const nlohmann::json& body, unsigned status) {
  return {status, "application/json", json_text(body) + "\n"};
}

http_response refusal_response(unsigned status, const std::string& why) {
  return json_response({{"error", why}}, status);
}

void http_exchange::wake() const {
  if (wake_)
    wake_();
}

void http_exchange::answer(http_response response) {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(is_answered_, true))
    return;
  answer_ = std::move(response);
  wake();
}

bool http_exchange::add(std::string line, bool always) {
  line += '\n';
  const std::scoped_lock lock(mutex_);
  if (!wake_ || (!always && bytes_ + leaving_ + line.size() > limit_))
    return false;
  bytes_ += line.size();
  waiting_.push_back(std::move(line));
  wake();
  return true;
}

bool http_exchange::offer(std::string line) {
  return add(std::move(line), false);
}

void http_exchange::put(std::string line) {
  add(std::move(line), true);
}

void http_exchange::finish() {
  const std::scoped_lock lock(mutex_);
  is_finished_ = true;
  left_ = nullptr;
  wake();
}

bool http_exchange::is_open() const {
  const std::scoped_lock lock(mutex_);
  return wake_ != nullptr;
}

void http_exchange::when_left(std::function<void()> then) {
  {
    const std::scoped_lock lock(mutex_);
    if (is_finished_)
      return;
    if (wake_) {
      left_ = std::move(then);
      return;
    }
  }
  then();
}

std::optional<http_response> http_exchange::take_answer() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(answer_, std::nullopt);
}

std::string http_exchange::take_lines() {
  constexpr std::size_t enough = std::size_t{64} << 10;
  const std::scoped_lock lock(mutex_);
  std::string lines;
  while (!waiting_.empty() && lines.size() < enough) {
    lines += waiting_.front();
    waiting_.pop_front();
  }
  bytes_ -= lines.size();
  leaving_ = lines.size();
  return lines;
}

void http_exchange::sent() {
  const std::scoped_lock lock(mutex_);
  leaving_ = 0;
}

bool http_exchange::is_finished() const {
  const std::scoped_lock lock(mutex_);
  return is_finished_;
}

void http_exchange::close() {
  std::function<void()> left;
  {
    const std::scoped_lock lock(mutex_);
    wake_ = nullptr;
    waiting_ = {};
    bytes_ = 0;
    left = std::exchange(left_, nullptr);
  }
  if (left)
    left();
}

}  // namespace troupe
