// Messages between the threads that call the trainer in all processes.
#include <utility>

#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

std::vector<frame> mesh::gather(frame mine) {
  if (!place().leads()) {
    mail(0, std::move(mine));
    return {};
  }
  std::vector<frame> all;
  all.push_back(std::move(mine));
  for (std::int32_t p = 1; p < place().processes; ++p)
    all.push_back(take(p));
  return all;
}

frame mesh::share(frame of_leader) {
  if (!place().leads())
    return take(0);
  for (std::int32_t p = 1; p < place().processes; ++p)
    mail(p, of_leader);
  return of_leader;
}

}  // namespace troupe
