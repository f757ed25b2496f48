#include "messages.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace troupe::simulated {
namespace {

using namespace membership;

std::string text_of(const wake& of) {
  constexpr std::array<std::string_view, 13> names{
    "tick",       "computed",      "rested",      "load again",
    "checkpoint", "new authority", "new process", "end is known",
    "fault",      "heal",          "link healed", "store is back",
    "calm"};
  return fmt::format("{} {} {}", names[static_cast<std::size_t>(of.kind)],
                     of.epoch, of.number);
}
std::string text_of(const step_data& of) {
  return fmt::format("data of step {} of epoch {}", of.step, of.epoch);
}
std::string text_of(const step_vote& of) {
  return fmt::format("vote for step {} of epoch {}, stored {}", of.step,
                     of.epoch, of.stored_step);
}
std::string text_of(const step_decision& of) {
  return fmt::format("decision for step {} of epoch {}, keep from {}", of.step,
                     of.epoch, of.keep_from);
}
std::string text_of(const state_request& of) {
  return fmt::format("wants rank {} of epoch {}", of.rank, of.epoch);
}
std::string text_of(const state_reply& of) {
  return fmt::format("gives rank {} of step {}", of.rank, of.step);
}
std::string text_of(const snapshot_copy& of) {
  return fmt::format("snapshot of rank {}, step {}", of.rank, of.step);
}
std::string text_of(const snapshot_stored& of) {
  return fmt::format("has stored rank {}, step {}", of.rank, of.step);
}
std::string text_of(const link_closed& of) {
  return fmt::format("link to {} closed", of.peer);
}
std::string text_of(const member_report& of) {
  constexpr std::array<std::string_view, 7> stages{
    "idle", "running", "freezing", "frozen", "preparing", "ready", "left"};
  auto text = fmt::format("report {}: {}, epoch {}, promise {}", of.serial,
                          stages[static_cast<std::size_t>(of.stage)], of.epoch,
                          of.promise);
  constexpr std::array<std::string_view, 3> kinds{"", " prepared", " snapshot"};
  for (const auto& copy : of.copies)
    text += fmt::format(" [{}@{}{}]", copy.rank, copy.step,
                        kinds[static_cast<std::size_t>(copy.kind)]);
  if (of.problem)
    text += fmt::format(", problem of epoch {}", of.problem->epoch);
  return text;
}
std::string text_of(const authority_order& of) {
  constexpr std::array<std::string_view, 6> kinds{"go on", "freeze", "prepare",
                                                  "begin", "leave",  "stop"};
  return fmt::format("order to {}, {} (answers {})",
                     kinds[static_cast<std::size_t>(of.kind)],
                     describe(of.epoch), of.answers);
}

}  // namespace

std::string describe(const payload& of) {
  return std::visit([](const auto& each) { return text_of(each); }, of);
}

std::string describe(const membership::epoch& of) {
  if (of.members.empty())
    return fmt::format("epoch {}", of.number);
  return fmt::format(
    "epoch {} from step {}, members {}, hosting {}, givers "
    "{}: {}",
    of.number, of.from_step, fmt::join(of.members, " "),
    fmt::join(of.hosting, " "), fmt::join(of.givers, " "), of.cause);
}

}  // namespace troupe::simulated
