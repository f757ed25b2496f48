#include "troupe/engine/stage/stage.hpp"

#include <type_traits>
#include <variant>

#include "troupe/base/fail.hpp"

namespace troupe {

void stage_state::offload(rank_device*) {
  fail(error_code::internal,
       "an activation is to be offloaded, but its forward was not prepared for "
       "it");
}

void stage_state::reload(rank_device*) {
  fail(
    error_code::internal,
    "an activation is to be reloaded, but its forward was not prepared for it");
}

namespace {

/// The base of the variant's alternative; null: it has no such base.
template <class Base>
Base* base_of(collective_work& work) {
  return std::visit(
    []<class Work>(Work& alternative) -> Base* {
      if constexpr (std::is_base_of_v<Base, Work>)
        return &alternative;
      else
        return nullptr;
    },
    work);
}

}  // namespace

reduction* reduction_of(collective_work& work) {
  return base_of<reduction>(work);
}

member_gradients* gradients_of(collective_work& work) {
  return base_of<member_gradients>(work);
}

collective_work stage_parameters::begin_reduction() {
  return all_reduce{{{take_gradients(), parameters()}}};
}

tied_sum stage_parameters::begin_tied_sum() {
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
