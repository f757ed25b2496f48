#include "troupe/cli/generate/generate_output.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "troupe/base/json.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe::cli {

namespace {

/// The number of bytes at the text's end that begin a UTF-8 character but don't
/// complete it.
std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size());
       ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    const std::size_t size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
    if ((c & 0xc0U) != 0x80)
      return size > back ? back : 0;
  }
  return 0;
}

}  // namespace

generated_output::generated_output(std::vector<generation_request> requests,
                                   token_texts tokens, std::size_t longest_stop,
                                   bool json)
  : requests_(std::move(requests)),
    tokens_(tokens),
    longest_stop_(longest_stop),
    json_(json),
    began_(now_ns()),
    results_(requests_.size()),
    seconds_(requests_.size(), 0) {
  if (requests_.size() == 1 && !json_)
    print_now(shown(requests_[0].ids));
}

/// Text for a terminal, which tokens must not control.
std::string generated_output::shown(
  const std::vector<std::int64_t>& ids) const {
  return plain_text(tokens_.text_of(ids));
}

void generated_output::see(std::size_t request, const generated& so_far) {
  results_[request] = so_far;
  if (so_far.end)
    seconds_[request] = static_cast<double>(now_ns() - began_) * 1e-9;
  if (requests_.size() == 1 && !json_)
    stream(so_far);
  else
    print_ended();
}

void generated_output::stream(const generated& so_far) {
  const auto withheld =
    so_far.end || longest_stop_ == 0 ? 0 : longest_stop_ - 1;
  const auto count = so_far.ids.size();
  const auto end = count - std::min(withheld, count);
  if (end > streamed_) {
    const auto first = so_far.ids.begin();
    const std::vector<std::int64_t> fresh(
      first + static_cast<std::ptrdiff_t>(streamed_),
      first + static_cast<std::ptrdiff_t>(end));
    unfinished_ += (tokens_.bytes ? "" : " ") + tokens_.text_of(fresh);
    streamed_ = end;
  }
  const auto unfinished = so_far.end ? 0 : unfinished_bytes(unfinished_);
  const auto ready = unfinished_.size() - unfinished;
  auto text = plain_text(std::string_view(unfinished_).substr(0, ready));
  unfinished_.erase(0, ready);
  if (so_far.end)
    text += '\n';
  print_now(text);
}

std::string generated_output::block_of(std::size_t request) const {
  const auto& prompt = requests_[request].ids;
  auto ids = prompt;
  ids.insert(ids.end(), results_[request].ids.begin(),
             results_[request].ids.end());
  return fmt::format("--- prompt {}\n{}\n", request + 1, shown(ids));
}

std::string generated_output::json_of(std::size_t request) const {
  const auto& result = results_[request];
  const auto count = std::ssize(result.ids);
  const auto seconds = seconds_[request];
  nlohmann::ordered_json line{{"prompt", request + 1},
                              {"prompt_tokens", requests_[request].ids.size()},
                              {"tokens", count},
                              {"end", result.end ? to_text(*result.end) : ""},
                              {"ids", result.ids}};
  if (tokens_.bytes)
    line["text"] = tokens_.text_of(result.ids);
  line["seconds"] = seconds;
  line["tokens_per_second"] =
    seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  return json_text(line) + "\n";
}

void generated_output::print_ended() {
  for (; next_ < results_.size() && results_[next_].end; ++next_)
    print_now(json_ ? json_of(next_) : block_of(next_));
}

void generated_output::warn_of_context(std::size_t request) const {
  const auto& result = results_[request];
  if (result.end == generation_end::context)
    spdlog::warn(
      "prompt {} ends after {} tokens: the model has {} positions, including "
      "the prompt's",
      request + 1, result.ids.size(),
      requests_[request].ids.size() + result.ids.size() - 1);
}

void generated_output::finish(const std::vector<generated>& results) {
  const auto seconds = static_cast<double>(now_ns() - began_) * 1e-9;
  std::size_t count = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    count += results[i].ids.size();
    if (!results_[i].end)
      see(i, results[i]);  // without tokens
    warn_of_context(i);
  }
  spdlog::info("{} tokens for {} prompt{} in {:.3g} s: {:.4g} tokens/s", count,
               results.size(), results.size() == 1 ? "" : "s", seconds,
               static_cast<double>(count) / seconds);
}

}  // namespace troupe::cli
