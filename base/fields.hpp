#pragma once

// A type that travels is described once, beside its definition, by
//   template <class Archive>
//   void fields(Archive& archive, T& value)
// which calls `archive("name", value.name)` for each field; TROUPE_FIELDS
// writes it. All forms derive from it: binary between processes
// (engine/transport/wire.hpp), JSON to attached clients
// (monitors/live/event_json.hpp). `archive.within_job("name", value.name)` is
// for fields that clients neither get nor give, `archive.for_clients` for those
// of theirs that follow from others, and `Archive::reads` tells the direction;
// a reading one refuses by `archive.require(is_valid, "name")`. A writing
// archive does not change the value. Members that are no fields keep their
// initial values at the reader.

namespace troupe {

/// Types that JSON writes as rows of their fields, as there are many of them.
template <class T>
inline constexpr bool travels_as_row = false;

/// The largest value of an enumeration, counted from 0, or the set of all of
/// its flags: specialised for each that is a field.
template <class Enum>
inline constexpr Enum largest_value = Enum::not_described;

}  // namespace troupe

/// TROUPE_FIELDS(type, member, ...) describes a type by its members' names.
#define TROUPE_FIELDS(type, ...)               \
  template <class Archive>                     \
  void fields(Archive& archive, type& value) { \
    TROUPE_EACH_FIELD(value, __VA_ARGS__)      \
  }

/// The same within such a function, for members of `object`.
#define TROUPE_EACH_FIELD(object, ...) \
  TROUPE_EXPAND_27(TROUPE_FIELD(object, __VA_ARGS__))

// A macro does not expand within itself, but in the next scan: each of 40 takes
// one member.
#define TROUPE_FIELD(object, member, ...) \
  archive(#member, object.member);        \
  __VA_OPT__(TROUPE_NEXT_FIELD TROUPE_PARENTHESES(object, __VA_ARGS__))
#define TROUPE_NEXT_FIELD() TROUPE_FIELD
#define TROUPE_PARENTHESES ()
#define TROUPE_EXPAND_27(...) \
  TROUPE_EXPAND_9(TROUPE_EXPAND_9(TROUPE_EXPAND_9(__VA_ARGS__)))
#define TROUPE_EXPAND_9(...) \
  TROUPE_EXPAND_3(TROUPE_EXPAND_3(TROUPE_EXPAND_3(__VA_ARGS__)))
#define TROUPE_EXPAND_3(...) \
  TROUPE_EXPAND_1(TROUPE_EXPAND_1(TROUPE_EXPAND_1(__VA_ARGS__)))
#define TROUPE_EXPAND_1(...) __VA_ARGS__
