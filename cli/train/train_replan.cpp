#include "troupe/cli/train/train_replan.hpp"

#include "troupe/base/error.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe::cli {

namespace {

using nlohmann::json;

memory_bound bound_of(const json& request) {
  memory_bound bound;
  if (request.contains("memory_limit"))
    bound.bytes = number_of(request, "memory_limit");
  if (request.contains("sizes"))
    bound.sizes = parse_sizes(text_of(request, "sizes"));
  if (bound.bytes > 0 && !bound.sizes)
    throw error(error_code::invalid_argument,
                "a memory limit needs the sizes of the stages' values");
  return bound;
}

schedule order_of(const json& request, const plan& current) {
  if (!request.contains("text"))
    return make_schedule(text_of(request, "schedule"),
                         {.ranks = current.ranks(),
                          .stages_per_rank = current.stages() / current.ranks(),
                          .microbatches = current.microbatches,
                          .slices = current.slices});
  const auto text = text_of(request, "text");
  const auto source = text_of(request, "source");
  return is_text_form(text) ? from_text_form(text, source)
                            : from_csv(text, source);
}

}  // namespace

json replan(const replanner& orders, const plan& current, const json& request) {
  const auto asks = [&](const char* flag) {
    return request.contains(flag) && flag_of(request, flag);
  };
  const auto found = asks("search")
                       ? orders.search(bound_of(request))
                       : orders.take(order_of(request, current), asks("force"));
  const auto ms = [](double value) { return value > 0 ? json(value) : json(); };
  return {{"schedule", found.order.name},
          {"taken", found.taken},
          {"now", ms(found.now)},
          {"then", ms(found.then)},
          {"uncertainty", found.uncertainty}};
}

}  // namespace troupe::cli
