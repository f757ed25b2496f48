#include "troupe/engine/plan/check/verify.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "troupe/base/error.hpp"
#include "troupe/engine/plan/check/replay.hpp"

namespace troupe {

namespace {

constexpr std::string_view names[]{"buffered", "credited", "rendezvous"};

}  // namespace

verdict verify(const plan& plan, const transport_model& model) {
  replay run{plan, model};
  run.run();
  if (run.finished())
    return {};
  return {.progress = false,
          .cycle = run.explain(),
          .stands_at = run.positions(),
          .posted = run.posted()};
}

std::string verdict::text() const {
  if (progress)
    return "progress: every op completes";
  std::string sentences;
  for (const auto& each : cycle)
    sentences += (sentences.empty() ? "" : "; ") + each.text;
  return "deadlock: " + sentences;
}

transport_kind parse_transport(std::string_view name) {
  for (const auto kind : {transport_kind::buffered, transport_kind::credited,
                          transport_kind::rendezvous})
    if (to_text(kind) == name)
      return kind;
  fail(error_code::invalid_argument,
       "unknown transport '{}': known transports are {}", name,
       fmt::join(names, ", "));
}

std::string_view to_text(transport_kind kind) {
  return names[slot(kind)];
}

}  // namespace troupe
