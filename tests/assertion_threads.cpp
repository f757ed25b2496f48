// Catch2 keeps the current assertion, messages and captured output in unguarded
// members, so assertions in two threads at once crash a test program now and
// then. This listener always aborts it, so that the first run finds such a
// test: let threads throw (tests/expect.hpp), and CHECK in the main thread.

#include <catch2/catch_test_case_info.hpp>
#include <catch2/interfaces/catch_interfaces_reporter.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

class assertion_threads final : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;

  void assertionStarting(const Catch::AssertionInfo& assertion) override {
    if (std::this_thread::get_id() == main_)
      return;
    std::fprintf(stderr, "%s:%zu: an assertion outside the main thread\n",
                 assertion.lineInfo.file, assertion.lineInfo.line);
    std::abort();
  }

 private:
  std::thread::id main_ = std::this_thread::get_id();
};

}  // namespace

CATCH_REGISTER_LISTENER(assertion_threads)
