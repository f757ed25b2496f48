#include "troupe/engine/launch/own_request.hpp"

#include <unistd.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("a process tells its authority who it is") {
  membership_options options{
    .authority = "unix:/a", .pipeline_ranks = 2, .hosting = {0, 1}};
  options.joining.place.process = 1;
  options.joining.place.processes = 2;
  const auto here = own_request(options, 7);
  CHECK(here.process == 1);
  CHECK(here.processes == 2);
  CHECK(here.member == 7);
  CHECK(here.pid == ::getpid());
  CHECK(here.host.empty());
  CHECK(here.shape.pipeline_ranks == 2);
  CHECK(here.hosting == options.hosting);
  options.authority = "tcp:127.0.0.1:1";
  CHECK_FALSE(own_request(options, 7).host.empty());
}
