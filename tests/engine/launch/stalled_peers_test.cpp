// Strangers at a rendezvous that anybody can reach.
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <future>

#include "../../resident_kib.hpp"
#include "../transport/link_ends.hpp"
#include "joined_processes.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// A connection that says hello, announces much, and stalls.
class stalled_peer {
 public:
  explicit stalled_peer(const endpoint& at) {
    const auto to = addresses_of(at).front();
    for (int tries = 0; tries < 1000 && !connected_; ++tries) {
      socket_ =
        owned_descriptor(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      connected_ = ::connect(socket_.get(), to.get(), to.size) == 0;
      if (!connected_)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    static const auto hello = first_words({});
    static const auto header = announcement();
    say(hello);
    say(header);
  }
  bool is_connected() const { return connected_; }

 private:
  /// The start of a frame whose head is announced as 1 MiB.
  static std::string announcement() {
    join_request request;
    request.host = std::string((1U << 20U) - 200, 'h');
    return frame_start(to_frame(request)).substr(0, frame_header::bytes + 100);
  }
  void say(const std::string& bytes) const {
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  owned_descriptor socket_;
  bool connected_ = false;
};

}  // namespace

TEST_CASE("five hundred peers that stall cost no memory and hold nobody up") {
  const auto where = free_port();
  std::vector<job_options> all;
  for (int p = 0; p < 2; ++p) {
    all.push_back(options_of(p, 2, where));
    all.back().shown.insecure = true;
  }
  std::promise<std::shared_ptr<mesh>> joined;
  std::thread first([&] { joined.set_value(join_all({all[0]}).meshes[0]); });
  std::vector<std::unique_ptr<stalled_peer>> peers;
  peers.push_back(std::make_unique<stalled_peer>(parse_endpoint(where)));
  const auto before = resident_kib();
  for (int i = 0; i < 500; ++i) {
    peers.push_back(std::make_unique<stalled_peer>(parse_endpoint(where)));
    CHECK(peers.back()->is_connected());
  }
  auto second = join_all({all[1]});
  CHECK(second.errors[0].empty());
  first.join();
  auto leader = joined.get_future().get();
  REQUIRE(leader);
  CHECK(resident_kib() < before + 32 * 1024);
  std::vector<std::shared_ptr<mesh>> meshes{leader, second.meshes[0]};
  leader.reset();
  second.meshes.clear();
  check_talk(std::move(meshes));
}
