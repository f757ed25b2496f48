#include "process.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::simulated {

using namespace membership;

namespace {

member_options options_of(const scenario& of, int self, member_id replaces) {
  auto options = of.member;
  options.self = self;
  options.replaces = replaces;
  return options;
}

}  // namespace

process::process(const scenario& of, draws& random, network& net,
                 checker& check, shared_disk& disk, surroundings& around,
                 int self, member_id replaces)
  : of_(of),
    random_(random),
    net_(net),
    check_(check),
    disk_(disk),
    around_(around),
    self_(self),
    clock_(random),
    member_(options_of(of, self, replaces), clock_.local(net.now())),
    executor_(of, net, check, disk, self) {
  net.after(moment(0), self, wake{});
}

void process::receive(event& happened) {
  std::visit([&](const auto& message) { on(happened.from, message); },
             happened.what);
}

void process::on(int, const wake& of) {
  switch (of.kind) {
    case wake_kind::tick:
      perform(member_.tick(now()));
      if (is_alive_)
        net_.after(std::max(member_.next_tick() - now(), moment(1000)), self_,
                   of);
      break;
    case wake_kind::computed:
      compute(of);
      break;
    case wake_kind::rested:
      perform(member_.stopped(now(), executor_.copies()));
      break;
    case wake_kind::load_again:
      if (of.epoch == member_.current().number)
        executor_.load_again();
      break;
    case wake_kind::checkpoint_read:
      if (of.epoch == member_.current().number)
        executor_.read_checkpoint();
      go_on();
      break;
    default:
      break;
  }
}

void process::compute(const wake& of) {
  if (!executor_.is_due(of))
    return;
  const auto is_poisoned =
    of.number == of_.poisoned_step && executor_.hosted()[0] == 0;
  if (is_poisoned
      || (of_.failed_ops && net_.now() < of_.faults_until
          && random_.chance(60))) {
    executor_.rest();
    return fail({.kind = trouble_kind::op_failed,
                 .step = of.number,
                 .rank = executor_.hosted()[0],
                 .what = "an op failed"});
  }
  executor_.compute();
  go_on();
}

void process::fail(trouble problem) {
  problem.epoch = member_.current().number;
  perform(member_.fail(now(), std::move(problem)));
}

void process::on(int, const link_closed& link) {
  if (std::ranges::count(member_.current().members, link.peer) > 0)
    fail({.kind = trouble_kind::link_broken, .peer = link.peer});
}

void process::on(int, const authority_order& order) {
  perform(member_.receive(now(), order));
}

void process::on(int, const step_vote& vote) {
  perform(member_.receive(now(), vote));
}

void process::on(int, const step_decision& decision) {
  perform(member_.receive(now(), decision));
}

/// What the executor has to tell its member.
void process::go_on() {
  if (executor_.take_loaded())
    perform(member_.loaded(now(), member_.current().number));
  if (executor_.take_prepared())
    perform(member_.prepared(now(), executor_.step(), executor_.stored_step()));
}

void process::perform(member_output out) {
  if (out.stops_steps) {
    executor_.rest();
    const auto is_long =
      of_.long_ops && net_.now() < of_.faults_until && random_.chance(4);
    net_.after(random_.time(1, is_long ? 5000 : 60), self_,
               wake{wake_kind::rested, 0, 0});
  }
  if (out.prepares) {
    executor_.prepare(member_.current());
    go_on();
  }
  if (out.begins) {
    check_.begun(self_, member_.current());
    executor_.begin();
    around_.say(self_,
                fmt::format("begins epoch {}", member_.current().number));
  }
  if (out.vote && member_.leader() != self_) {
    net_.send(self_, static_cast<int>(member_.leader()), *out.vote);
    around_.voted(member_.leader());
  }
  if (out.decision)
    broadcast(*out.decision);
  if (out.applies) {
    executor_.apply(*out.applies);
    if (!member_.current().ends.empty()) {
      executor_.rest();  // its program is at the end of the run
      around_.saved(self_, member_.current());
    }
    member_.checkpoint_saved(disk_.complete_step());
    go_on();
  }
  if (out.report)
    around_.send_report(self_, *out.report);
  if (out.leaves || out.stops_job)
    around_.ended(self_);
}

void process::broadcast(const step_decision& decision) {
  const auto& of = member_.current();
  around_.decided(self_, of, decision);
  for (const auto member : of.members)
    if (member != self_)
      net_.send(self_, static_cast<int>(member), decision);
}

}  // namespace troupe::simulated
