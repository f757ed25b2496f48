#pragma once

#include <string>
#include <vector>

#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::testing {

/// The path of a sample file of tests/schedules/cases.
std::string case_path(const std::string& name);

/// The names of the cases that PyTorch wrote, without their endings.
const std::vector<std::string>& case_names();

inline plan make_plan(std::string_view name, const schedule_shape& shape,
                      const compile_options& options = {}) {
  return compile(make_schedule(name, shape), options);
}

/// Whether its updates can wait for a norm over all stages.
inline bool takes_global_norm(const builtin_schedule& row,
                              const schedule_shape& shape) {
  return row.make(shape).update.every == 0;
}

/// The ops of a rank, in order: "0F0 0SEND_F0".
inline std::string lane_text(const plan& of, std::int32_t rank) {
  std::string text;
  for (const auto& op : of.lane(rank))
    text += (text.empty() ? "" : " ") + to_text(of, op);
  return text;
}

/// How often a text contains a word.
inline std::size_t count(const std::string& text, std::string_view word) {
  std::size_t result = 0;
  for (auto at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1))
    ++result;
  return result;
}

inline const transport_model all_transports[]{
  {transport_kind::buffered, false},   {transport_kind::buffered, true},
  {transport_kind::credited, false},   {transport_kind::credited, true},
  {transport_kind::rendezvous, false}, {transport_kind::rendezvous, true}};

}  // namespace troupe::testing
