#include "troupe/engine/launch/authority/authority_candidate.hpp"

#include <exception>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/names.hpp"
#include "troupe/engine/launch/etcd/elected_authority.hpp"

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

constexpr auto done_key = "done";
constexpr std::chrono::seconds told_for{60};
constexpr std::chrono::milliseconds campaign_every{200};

}  // namespace

authority_candidate::authority_candidate(candidate_options options)
  : options_(std::move(options)), etcd_(options_.etcd) {}

authority_candidate::~authority_candidate() {
  server_.reset();
  try {
    if (lease_ != 0)
      etcd_.revoke_lease(lease_);
  } catch (const std::exception&) {  // it ends by itself
  }
}

void authority_candidate::tick() {
  const bool is_deposed =
    server_ && server_->state() == authority_state::deposed;
  if (is_deposed)
    server_.reset();
  if (!is_due() && !is_deposed)
    return;
  try {
    if (const auto lease = std::exchange(lease_, is_deposed ? 0 : lease_);
        is_deposed && lease != 0)
      etcd_.revoke_lease(lease);
    if (lease_ != 0)
      renew();
    if (lease_ == 0)
      campaign();
    is_away_ = false;
  } catch (const error& reason) {
    if (reason.code() != error_code::transport)
      throw;
    if (!std::exchange(is_away_, true) && options_.trouble)
      options_.trouble(reason.what());
  }
}

bool authority_candidate::is_due() {
  const auto every = lease_ == 0
                       ? campaign_every
                       : std::chrono::milliseconds(options_.lease) / 3;
  const auto now = clock::now();
  if (now - asked_at_ < every)
    return false;
  asked_at_ = now;
  return true;
}

void authority_candidate::renew() {
  if (!etcd_.keep_lease(lease_))
    lease_ = 0;
}

/// A text that differs from job to job; empty: none has ended in the last
/// minute.
std::string authority_candidate::ended_job() {
  const auto found = etcd_.get(done_key);
  return found ? found->value : std::string{};
}

/// An authority that runs stays if nobody else was elected meanwhile.
void authority_candidate::campaign() {
  if (!done_before_)
    done_before_ = ended_job();
  if (const auto elected = etcd_.get(authority_key)) {
    if (elected->value != options_.where)
      server_.reset();
    return;
  }
  const auto ended = ended_job();
  has_finished_ = ended != *done_before_ && !ended.empty();
  if (has_finished_)
    return;
  const auto lease = etcd_.grant_lease(options_.lease);
  if (!etcd_.put(authority_key, options_.where, 0, lease))
    return etcd_.revoke_lease(lease);
  lease_ = lease;
  if (!server_)
    server_ = options_.start();
}

void authority_candidate::finish() {
  server_.reset();
  etcd_.erase("record");
  const auto lease = etcd_.grant_lease(told_for);
  etcd_.put(done_key, random_digits(4), etcd_.version(done_key), lease);
}

}  // namespace troupe
