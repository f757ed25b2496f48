// Catch2 keeps the running assertion, messages and captured output in members
// that nothing guards: assertions in two threads at once end a test program
// now and then. This listener ends it always, so that such a test is found by
// its first run: let threads throw (tests/expect.hpp), and CHECK in main.

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
