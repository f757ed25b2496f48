// A job that waits for its second process gets hellos, handshakes and messages
// that are wrong, over real sockets. It waits on, and then trains to the bits
// of one process.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <catch2/catch_test_macros.hpp>

#include <array>

#include "../cli/background_program.hpp"
#include "../cli/troupe_program.hpp"
#include "../engine/transport/link_ends.hpp"
#include "../files.hpp"
#include "mutate.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/stream/listener.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const std::string token = "a-token-of-the-tests-90cc";

/// The job's first process, and all that its second one needs.
class waiting_job {
 public:
  waiting_job(std::string where, const std::string& trust)
    : where_(std::move(where)),
      flags_(trust + " --rendezvous " + where_ + " --patience 3000"
             + " --save-parameters " + (folder_ / "job")),
      first_(command(0, flags_), folder_ / "first") {}

  /// Waits until the job listens.
  void wait() const {
    for (int i = 0; i < 1000; ++i) {
      const auto socket = connect(0);
      ::close(socket);
      if (socket >= 0)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    FAIL("it does not listen: " << first_.output());
  }

  /// A connected socket; -1 if the job does not listen. TCP sockets come from
  /// many addresses of this machine, as one address has too few ports.
  int connect(int number) const {
    const auto to = addresses_of(parse_endpoint(where_)).front();
    const auto socket = ::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (to.family() == AF_INET) {
      sockaddr_in from{};
      from.sin_family = AF_INET;
      from.sin_addr.s_addr =
        htonl(INADDR_LOOPBACK + static_cast<unsigned>(number % 200));
      ::bind(socket, reinterpret_cast<const sockaddr*>(&from), sizeof(from));
    }
    if (::connect(socket, to.get(), to.size) == 0)
      return socket;
    ::close(socket);
    return -1;
  }

  std::size_t resident_kib() const {
    std::ifstream status(fmt::format("/proc/{}/statm", first_.pid()));
    std::size_t all = 0, resident = 0;
    status >> all >> resident;
    return resident * 4;
  }

  /// Starts the second process, and lets both train to the end.
  void check_that_it_trains() {
    const auto second = run_program(command(1, flags_));
    INFO(second.output);
    CHECK(second.exit_code == 0);
    const auto code = first_.end(0);
    INFO(first_.output());
    CHECK(code == 0);
    CHECK(first_.output().find(token) == std::string::npos);
    const auto plain = folder_ / "plain";
    const auto alone =
      run_program(command(-1, "--plain --save-parameters " + plain));
    INFO(alone.output);
    REQUIRE(alone.exit_code == 0);
    CHECK(content(folder_ / "job") == content(plain));
  }

 private:
  std::string command(int process, const std::string& flags) const {
    const auto place =
      process < 0
        ? std::string{}
        : fmt::format("RANK={} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 ", process);
    return "env " + place + TROUPE_PROGRAM + " train --text " + text_
           + " --ranks 2 --d-model 16 --layers 2 --heads 2 --seq 8"
             " --microbatch-size 2 --microbatches 2 --steps 3 --endpoint none "
           + flags;
  }

  temporary_folder folder_;
  std::string text_ = folder_.write("text", std::string(6000, 'a'));
  std::string where_, flags_;
  background_program first_;
};

void send_all(int socket, const std::string& bytes) {
  ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// Empty if the other side has ended.
std::string receive(int socket, std::size_t bytes) {
  std::string received(bytes, 0);
  return ::recv(socket, received.data(), bytes, MSG_WAITALL)
             == static_cast<ssize_t>(bytes)
           ? received
           : std::string{};
}

/// Identifies as another process of the same user.
bool introduce(int socket) {
  static const auto words = first_words({});
  send_all(socket, words);
  return receive(socket, words.size()) == words;
}

/// The frames of all messages before a job begins.
std::vector<std::string> messages() {
  std::vector<std::string> all;
  for (const rendezvous_message& each : std::vector<rendezvous_message>{
         join_request{1,
                      2,
                      77,
                      "host",
                      {"tcp:127.0.0.1:8", "m", "unix:/tmp/a"},
                      {{"--ranks", "2"}}},
         join_welcome{7, {{"unix:/a"}, {"unix:/b"}}}, join_refusal{"no"},
         line_hello{7, 1}, clock_question{5}, clock_answer{5, 6},
         job_ready{{0, 9}}})
    all.push_back(frame_start(to_frame(each)));
  return all;
}

/// A process that asks to join is compared, and ends the job if it belongs to
/// another one, which is intended.
bool asks_to_join(std::string_view bytes) {
  try {
    const auto header = read_frame_header(bytes.substr(0, frame_header::bytes),
                                          {.tensor_bytes = 0});
    const auto head = read_frame_head(
      header, bytes.substr(frame_header::bytes, header.head_bytes));
    return std::holds_alternative<join_request>(
      read_rendezvous({header.type, head.head, {}}));
  } catch (const troupe::error&) {
    return false;
  }
}

/// Connects so many clients one after the other, each invalid in its own way.
void annoy(waiting_job& job, int count,
           const std::function<void(int socket, mutator&)>& say) {
  job.wait();
  mutator mutations(19);
  std::size_t memory = 0;
  for (int i = 0; i < count; ++i) {
    if (i == count / 10)
      memory = job.resident_kib();
    const auto socket = job.connect(i);
    REQUIRE(socket >= 0);
    say(socket, mutations);
    ::shutdown(socket, SHUT_WR);
    ::close(socket);
  }
  CHECK(job.resident_kib() < memory + 64 * 1024);
  job.check_that_it_trains();
}

std::string secret_flag(const temporary_folder& folder) {
  const auto path = folder.write("secret", token + "\n");
  ::chmod(path.c_str(), 0600);
  return " --job-token-file " + path;
}

void annoy_with_hellos(int count) {
  const temporary_folder folder;
  const auto where =
    to_text(listener(parse_endpoint("tcp:127.0.0.1:0")).where());
  waiting_job job(where, secret_flag(folder));
  const auto words = first_words({tls_context::of_token(token)});
  annoy(job, count, [&](int socket, mutator& mutations) {
    send_all(socket, mutations.mutate(words, words));
  });
}

void annoy_with_handshakes(int count) {
  const temporary_folder folder;
  const auto where =
    to_text(listener(parse_endpoint("tcp:127.0.0.1:0")).where());
  make_certificates(folder / "own");
  waiting_job job(where, " --certificates " + (folder / "own"));
  const auto words = first_words({context_in(folder / "foreign")});
  annoy(job, count, [&](int socket, mutator& mutations) {
    send_all(socket, mutations.mutate(words, words));
  });
}

void annoy_with_messages(int count) {
  const temporary_folder folder;
  waiting_job job("unix:" + (folder / "job"), {});
  const auto all = messages();
  std::mt19937 random(23);
  annoy(job, count, [&](int socket, mutator& mutations) {
    std::string message;
    do
      message = mutations.mutate(all[random() % all.size()],
                                 all[random() % all.size()]);
    while (asks_to_join(message));
    REQUIRE(introduce(socket));
    send_all(socket, message);
  });
}

}  // namespace

TEST_CASE("a waiting job outlives wrong hellos and handshakes") {
  annoy_with_hellos(300);
  annoy_with_handshakes(300);
}

TEST_CASE("a waiting job outlives wrong messages of its own user") {
  annoy_with_messages(300);
}

TEST_CASE("a waiting job outlives a hundred thousand of each", "[.full]") {
  annoy_with_hellos(100'000);
  annoy_with_handshakes(100'000);
  annoy_with_messages(100'000);
}
