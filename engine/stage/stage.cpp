#include "troupe/engine/stage/stage.hpp"

#include "troupe/base/error.hpp"

namespace troupe {

void stage_state::offload(rank_device*) {
  fail(error_code::internal,
       "what a forward keeps is to be offloaded, and the forward was not told");
}

void stage_state::reload(rank_device*) {
  fail(error_code::internal,
       "what a forward keeps is to be reloaded, and the "
       "forward was not told");
}

collective_work stage_parameters::begin_tied_sum() {
  fail(error_code::internal, "the stage holds no tied parameters");
}

std::shared_ptr<stage_state> stage_parameters::read_version(std::int32_t,
                                                            bool) {
  fail(error_code::internal, "the stage keeps no versions of its parameters");
}

void stage_parameters::read_again(const std::shared_ptr<stage_state>&) {
  fail(error_code::internal, "the stage keeps no versions of its parameters");
}

}  // namespace troupe
