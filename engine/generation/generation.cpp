#include "troupe/engine/generation/generation.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "troupe/base/fail.hpp"
#include "troupe/engine/generation/continuation.hpp"
#include "troupe/engine/generation/sampling.hpp"

namespace troupe {

namespace {

void require_legal(const generation_options& options) {
  const auto refuse = [](const char* what, std::int64_t value,
                         std::int64_t least) {
    if (value < least)
      fail(error_code::invalid_argument, "{} are {}; give {} or more", what,
           value, least);
  };
  refuse("the model's positions", options.length, 0);
  refuse("rows of a microbatch", options.rows, 1);
  refuse("microbatches in flight", options.microbatches, 0);
  refuse("positions of a step", options.positions, 1);
  if (std::ranges::any_of(options.stops,
                          [](const auto& s) { return s.empty(); }))
    throw error(error_code::invalid_argument, "a stop text is empty");
}

}  // namespace

std::string_view to_text(generation_end end) {
  constexpr std::array names{"tokens", "stop", "context"};
  return names[static_cast<std::size_t>(end)];
}

void require_legal(const generation_request& request, const std::string& name,
                   const generation_options& options) {
  const auto refuse = [&](const std::string& what) {
    fail(error_code::invalid_argument, "{} {}", name, what);
  };
  if (request.ids.empty())
    refuse("is empty; give at least one token");
  if (*std::ranges::min_element(request.ids) < 0)
    refuse("has a negative id; ids are numbers from 0 up");
  if (options.length > 0 && std::ssize(request.ids) > options.length)
    refuse(fmt::format(
      "has {} tokens, but the model has {} positions; give a shorter one",
      request.ids.size(), options.length));
  if (request.tokens < 0)
    refuse(
      fmt::format("has {} tokens to generate; give 0 or more", request.tokens));
  try {
    require_legal(request.sampling);
  } catch (const error& reason) {
    refuse(fmt::format("has {}", reason.what()));
  }
}

void require_legal(const std::vector<generation_request>& requests,
                   const generation_options& options) {
  require_legal(options);
  for (std::size_t i = 0; i < requests.size(); ++i)
    require_legal(requests[i], fmt::format("prompt {}", i + 1), options);
}

generated generate_plainly(
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of,
  const generation_request& request, const generation_options& options) {
  require_legal({request}, options);
  const at::NoGradGuard no_grad;
  continuation sequence(request, options);
  auto ids = request.ids;
  while (!sequence.ended()) {
    const auto logits = logits_of(at::tensor(ids, at::kLong).unsqueeze(0));
    ids.push_back(sequence.choose(logits.select(0, 0).select(0, -1)));
    sequence.append(ids.back());
  }
  return sequence.so_far();
}

}  // namespace troupe
