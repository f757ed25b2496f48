#include "troupe/engine/launch/authority/authority_server.hpp"

#include <algorithm>

#include "troupe/engine/launch/authority/authority_server_state.hpp"

namespace troupe {

authority_server::authority_server(const endpoint& where,
                                   authority_server_options options)
  : impl_(std::make_unique<impl>(where, std::move(options))) {}

authority_server::~authority_server() = default;

std::string authority_server::where() const {
  return to_text(impl_->incoming->where());
}

authority_state authority_server::state() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->state();
}

std::int32_t authority_server::processes() const {
  const std::scoped_lock lock(impl_->mutex);
  return static_cast<std::int32_t>(impl_->connected.size());
}

process_loss authority_server::process_ended(std::int64_t pid) {
  auto result = process_loss::of_nobody;
  impl_->loop.run([&] {
    if (const auto member = impl_->member_of(pid)) {
      const bool allows = impl_->allows_end_of(*member);
      if (const auto link = impl_->disconnect(*member))
        link->abort();
      impl_->lose(*member);
      result = allows && !impl_->stopped ? process_loss::healed
                                         : process_loss::stops_job;
    }
  });
  return result;
}

std::string authority_server::stop_reason() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->stopped.value_or("");
}

bool authority_server::has_begun() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->table && !impl_->table->empty() && !impl_->stopped;
}

bool authority_server::is_overdue(std::int64_t pid,
                                  std::chrono::milliseconds age) const {
  if (has_had_epoch())
    return false;
  bool result = false;
  impl_->loop.run([&] {
    const auto member = impl_->member_of(pid);
    result = impl_->decides && age.count() >= impl_->first.patience_ms
             && !(member && impl_->decides->seats().find(*member));
  });
  return result;
}

bool authority_server::has_had_epoch() const {
  const std::scoped_lock lock(impl_->mutex);
  return !impl_->members.empty();
}

bool authority_server::is_done() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->is_done;
}

bool authority_server::has_left(std::int64_t pid) const {
  const std::scoped_lock lock(impl_->mutex);
  const auto member = impl_->member_of(pid);
  return member && impl_->table->has_left(*member);
}

bool authority_server::has_part(std::int64_t pid) const {
  const std::scoped_lock lock(impl_->mutex);
  const auto member = impl_->member_of(pid);
  return member && std::ranges::binary_search(impl_->members, *member);
}

}  // namespace troupe
