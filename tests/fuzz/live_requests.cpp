// Requests of a live job's clients, answered by a job without stages.
#include "parse.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/monitors/live/attached_monitors.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

using namespace troupe;

namespace {

monitor named(const std::string& spec) {
  monitor made;
  made.name = spec;
  return made;
}

std::int64_t attach(const monitor& watcher) {
  require_legal(watcher.wants);
  watcher.wants.covers_step(7);
  matches_glob(watcher.wants.names, "blocks.3.attention.query");
  return 1;
}

job_operations operations() {
  job_operations made;
  made.attach = attach;
  made.detach = [](std::int64_t) {};
  made.make = [](const wanted_monitor& wanted) { return named(wanted.spec); };
  made.info = [] { return nlohmann::json::object(); };
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto request = parse_json(text);
    const auto to = std::make_shared<outbox>(1 << 16, [] {});
    attached_monitors attached(operations(), {});
    const auto run = [](const std::function<void()>& detach) {
      if (detach)
        detach();
    };
    for (int times = 0; times < 2; ++times) {
      const auto reply =
        attached.answer({1, access_right::control, to}, request);
      json_text(reply.slow ? reply.slow() : reply.answer);
      run(reply.tidy);
    }
    run(attached.client_left(1));
    run(attached.detach_all());
    const auto wants = subscription_of(request);
    testing::require(json_of(subscription_of(json_of(wants)))
                     == json_of(wants));
  });
}
