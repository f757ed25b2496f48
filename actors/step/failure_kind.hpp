#pragma once

#include <cstdint>

#include "troupe/base/error.hpp"
#include "troupe/base/fields.hpp"
#include "troupe/engine/events/event.hpp"

namespace troupe {

/// What a job that heals can do about a failure.
enum class failure_kind : std::uint8_t {
  permanent,  ///< nothing: it would come again
  op,         ///< run the step again: the op may succeed then, or elsewhere
  link,       ///< go on without a process that is gone, or with others
};

/// The kind of a failure by the error of an op. A second try may help with
/// devices and files; wrong data, values and plans stay wrong. Other exceptions
/// than `error`, which a user's code throws, are `op`.
constexpr failure_kind kind_of(error_code code) {
  switch (code) {
    case error_code::transport:
      return failure_kind::link;
    case error_code::device:
    case error_code::io:
      return failure_kind::op;
    default:
      return failure_kind::permanent;
  }
}

/// What a run has failed of, and where.
struct failure_origin {
  failure_kind kind = failure_kind::permanent;
  std::int32_t process = 0;  // of the op
  event_source source{};     // of the op
};

template <>
inline constexpr auto largest_value<failure_kind> = failure_kind::link;
TROUPE_FIELDS(failure_origin, kind, process, source)

}  // namespace troupe
