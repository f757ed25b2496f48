#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/dashboard/dashboard.hpp"
#include "troupe/monitors/dashboard/dashboard_subject.hpp"

namespace troupe {

/// A `dashboard` whose monitors are attached by others. Is to be destroyed
/// before what `subject.health` reaches; monitors and sink may outlive it.
class dashboard_server {
 public:
  /// Throws as `dashboard`.
  dashboard_server(dashboard_subject subject, const dashboard_options& options);
  ~dashboard_server();
  dashboard_server(const dashboard_server&) = delete;
  dashboard_server& operator=(const dashboard_server&) = delete;

  /// Its data sources.
  std::vector<monitor> monitors() const;
  sink_pointer sink() const;
  void add_warning(const char* kind, const std::string& text);
  std::string url() const;
  std::size_t connections() const;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

/// The page, made at build time of the files in `page/`: HTML with its style
/// and script inside. `@nonce@` stands where a response's nonce belongs.
std::string_view dashboard_page();

}  // namespace troupe
