#include "troupe/schedules/find_schedule.hpp"

#include "troupe/base/error.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"

namespace troupe {

schedule find_schedule(const std::string& name_or_path,
                       const schedule_shape& shape) {
  if (name_or_path == "search")
    fail(error_code::unknown_schedule,
         "'search' is not a built-in schedule; troupe::search finds one for "
         "measured costs");
  return names_file(name_or_path) ? load_schedule(name_or_path)
                                  : make_schedule(name_or_path, shape);
}

bool names_file(const std::string& name_or_path) {
  return name_or_path.find_first_of("./") != std::string::npos;
}

}  // namespace troupe
