#include "troupe/cli/monitor_factory.hpp"

#include "troupe/monitors/gap.hpp"
#include "troupe/monitors/overflow.hpp"
#include "troupe/monitors/stability.hpp"
#include "troupe/monitors/throughput.hpp"
#include "troupe/schedules/error.hpp"
#include "troupe/schedules/printable.hpp"

namespace troupe::cli {

decltype(live_powers::make) monitor_factory(trainer& run) {
  return [plan = run.shared_plan()](
           const std::string& spec, const sink_pointer& sink,
           const live_powers::printer& print) -> monitor {
    if (spec == "gap")
      return gap_monitor({}, sink);
    if (spec == "overflow")
      return overflow_monitor({.print = print}, sink);
    if (spec == "stability")
      return stability_monitor({}, sink);
    if (spec == "throughput")
      return throughput_monitor(plan, {}, sink);
    fail(error_code::invalid_argument,
         "no monitor '{}': there are gap, overflow, stability and throughput",
         printable(spec));
  };
}

}  // namespace troupe::cli
