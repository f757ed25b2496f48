#include "troupe/engine/launch/environment.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>

#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

launch_environment read(const std::map<std::string, std::string>& variables) {
  return read_environment(
    [&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt
                                      : std::optional(found->second);
    });
}

void check_refused(const std::map<std::string, std::string>& variables,
                   const std::string& because) {
  CHECK_THROWS_MATCHES(read(variables), error,
                       MessageMatches(ContainsSubstring(because)));
}

}  // namespace

TEST_CASE("without a launcher a process is alone") {
  CHECK(read({}).is_alone());
  CHECK(read({{"MASTER_ADDR", "x"}, {"SLURM_JOB_ID", "4"}}).is_alone());
}

TEST_CASE("torchrun's variables are understood") {
  const auto at = read({{"RANK", "3"},
                        {"WORLD_SIZE", "4"},
                        {"LOCAL_RANK", "1"},
                        {"LOCAL_WORLD_SIZE", "2"},
                        {"MASTER_ADDR", "node-0"},
                        {"MASTER_PORT", "29500"},
                        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                        {"TORCHELASTIC_RUN_ID", "abc"}});
  CHECK(at.launcher == "torchrun");
  CHECK(at.process == 3);
  CHECK(at.processes == 4);
  CHECK(at.local_process == 1);
  CHECK_FALSE(at.is_one_machine());
  CHECK(at.host == "node-0");
  CHECK(at.port == 29500);
  CHECK(at.agent_store);
}

TEST_CASE("each attempt of torchrun's is a job of its own") {
  const auto attempt = [](const std::string& run, const std::string& count) {
    return read({{"RANK", "0"},
                 {"WORLD_SIZE", "2"},
                 {"TORCHELASTIC_RUN_ID", run},
                 {"TORCHELASTIC_RESTART_COUNT", count}});
  };
  CHECK(attempt("a", "0").job == attempt("a", "0").job);
  CHECK(attempt("a", "0").job != attempt("a", "1").job);
  CHECK(attempt("a", "0").job != attempt("b", "0").job);
  CHECK(attempt("a", "0").elastic_run == attempt("a", "1").elastic_run);
  CHECK(attempt("a", "0").elastic_run != attempt("b", "0").elastic_run);
}

TEST_CASE("where process 0 is tells whether there are several machines") {
  const auto is_one_machine = [](const std::string& host) {
    return read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", host}})
      .is_one_machine();
  };
  for (const auto* here : {"localhost", "127.0.0.1", "::1", "[::1]"})
    CHECK(is_one_machine(here));
  CHECK_FALSE(is_one_machine("job-master-0"));
  CHECK_FALSE(is_one_machine("10.0.0.7"));
  CHECK(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).is_one_machine());
  // Explicit values take precedence.
  CHECK(read({{"RANK", "0"},
              {"WORLD_SIZE", "2"},
              {"LOCAL_WORLD_SIZE", "2"},
              {"MASTER_ADDR", "this-host"}})
          .is_one_machine());
}

TEST_CASE("troupe launch is known by the job's name") {
  CHECK(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TROUPE_JOB", "x"}}).launcher
        == "troupe launch");
  const auto by_hand = read({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  CHECK_THAT(by_hand.job, ContainsSubstring(std::to_string(::getppid())));
  CHECK_THAT(by_hand.if_no_address, ContainsSubstring("MASTER_ADDR"));
  CHECK(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}})
          .job.empty());
  CHECK(by_hand.launcher == "the environment");
}

TEST_CASE("Slurm's variables are understood") {
  const auto at = read({{"SLURM_PROCID", "2"},
                        {"SLURM_STEP_NUM_TASKS", "7"},
                        {"SLURM_LOCALID", "0"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                        {"SLURM_JOB_ID", "11"},
                        {"SLURM_STEP_ID", "5"}});
  CHECK(at.launcher == "Slurm");
  CHECK(at.process == 2);
  CHECK(at.local_processes == 2);
  CHECK(at.job == "11.5");
  CHECK(at.host.empty());
  CHECK(at.port == 0);
}

TEST_CASE("processes of Slurm and Open MPI meet at the first host") {
  const std::map<std::string, std::string> step{
    {"SLURM_PROCID", "0"},
    {"SLURM_STEP_NUM_TASKS", "4"},
    {"SLURM_STEP_NODELIST", "node[03-04]"},
    {"SLURM_JOB_ID", "11"},
    {"SLURM_STEP_ID", "5"}};
  const auto at = read(step);
  CHECK(at.host == "node03");
  CHECK((at.port >= 20000 && at.port < 30000));
  CHECK(at.said_by == "SLURM_STEP_NODELIST");
  auto later = step;
  later["SLURM_STEP_ID"] = "6";
  CHECK(read(later).port != at.port);
  auto set = step;
  set["MASTER_ADDR"] = "elsewhere";
  set["MASTER_PORT"] = "7";
  CHECK(read(set).host == "elsewhere");
  CHECK(read(set).port == 7);
  const auto mpi = read({{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_MCA_orte_hnp_uri", "7.0;tcp://10.0.0.1:5031"},
                         {"PMIX_NAMESPACE", "70001"}});
  CHECK(mpi.host == "10.0.0.1");
  CHECK(mpi.port == port_of_job("70001"));
}

TEST_CASE("Open MPI's variables are understood") {
  const auto at = read({{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "prterun-1"}});
  CHECK(at.launcher == "Open MPI");
  CHECK(at.process == 1);
  CHECK(at.is_one_machine());
  CHECK(at.job == "prterun-1");
}

TEST_CASE("mpirun within a step of Slurm's is Open MPI's job") {
  // `srun --pty bash` sets these for everything started in the shell.
  const std::map<std::string, std::string> step{
    {"SLURM_PROCID", "0"},
    {"SLURM_STEP_NUM_TASKS", "1"},
    {"SLURM_STEP_TASKS_PER_NODE", "1"},
    {"SLURM_JOB_ID", "11"},
    {"SLURM_STEP_ID", "5"}};
  auto within = step;
  within.merge(
    std::map<std::string, std::string>{{"OMPI_COMM_WORLD_RANK", "1"},
                                       {"OMPI_COMM_WORLD_SIZE", "2"},
                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                       {"PMIX_NAMESPACE", "prterun-1"}});
  const auto at = read(within);
  CHECK(at.launcher == "Open MPI");
  CHECK(at.process == 1);
  CHECK(at.processes == 2);
  CHECK(at.job == "prterun-1");
  // A Slurm step has a namespace too, if srun uses PMIx.
  auto own = step;
  own["PMIX_NAMESPACE"] = "slurm.pmix.11.5";
  own["TROUPE_JOB"] = "an older one";
  CHECK(read(own).job == "11.5");
  auto launched = within;
  launched.merge(std::map<std::string, std::string>{
    {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TROUPE_JOB", "x"}});
  CHECK(read(launched).job == "x");
}

TEST_CASE("MPI's variables are understood: MPICH, Intel MPI, Flux and Cray") {
  const std::map<std::string, std::string> common{{"PMI_RANK", "2"},
                                                  {"PMI_SIZE", "4"}};
  auto hydra = common, cray = common;
  hydra.merge(std::map<std::string, std::string>{{"MPI_LOCALRANKID", "1"},
                                                 {"MPI_LOCALNRANKS", "2"}});
  cray.merge(std::map<std::string, std::string>{
    {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "2"}, {"PALS_APID", "a1"}});
  for (const auto& variables : {hydra, cray}) {
    const auto at = read(variables);
    CHECK(at.launcher == "MPI");
    CHECK(at.process == 2);
    CHECK(at.processes == 4);
    CHECK(at.counted_by == "PMI_SIZE=4");
    CHECK(at.local_process == 1);
    CHECK(at.local_processes == 2);
    CHECK(at.host.empty());
    CHECK(at.doubt.empty());
  }
  CHECK(read(common).is_one_machine());
  CHECK(read(cray).job == "a1");
  auto set = hydra;
  set.merge(std::map<std::string, std::string>{{"MASTER_ADDR", "first"},
                                               {"MASTER_PORT", "7"}});
  CHECK(read(set).host == "first");
}

TEST_CASE("jobs of Hydra's are told apart by the socket that they inherit") {
  const auto job = [](int descriptor) {
    return read({{"PMI_RANK", "0"},
                 {"PMI_SIZE", "2"},
                 {"HYDI_CONTROL_FD", std::to_string(descriptor)}})
      .job;
  };
  std::array<int, 2> one{}, other{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, one.data()) == 0);
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, other.data()) == 0);
  const auto same = ::dup(one[0]);
  CHECK(job(one[0]) == job(same));
  CHECK(job(one[0]) != job(other[0]));
  CHECK(job(one[0]) != "");
  for (const auto each : {one[0], one[1], other[0], other[1], same})
    ::close(each);
  for (const auto none : {one[0], -1})
    CHECK_THAT(job(none), ContainsSubstring(std::to_string(::getppid())));
}

TEST_CASE("srun with MPI's variables is Slurm's, mpiexec in a step is not") {
  std::map<std::string, std::string> step{{"SLURM_PROCID", "1"},
                                          {"SLURM_STEP_NUM_TASKS", "2"},
                                          {"SLURM_STEP_NODELIST", "node[1-2]"},
                                          {"SLURM_JOB_ID", "11"},
                                          {"SLURM_STEP_ID", "5"},
                                          {"PMI_RANK", "1"},
                                          {"PMI_SIZE", "2"}};
  CHECK(read(step).launcher == "MPI");
  step["PMI_JOBID"] = "11.5";
  CHECK(read(step).launcher == "Slurm");
  CHECK(read(step).host == "node1");
}

TEST_CASE("a launcher whose variables don't suffice is doubted") {
  for (const auto& variables :
       {std::map<std::string, std::string>{{"PMIX_RANK", "1"}},
        {{"FLUX_TASK_RANK", "0"}},
        {{"PMI_RANK", "1"}},
        {{"OMPI_COMM_WORLD_RANK", "1"}, {"MASTER_ADDR", "x"}}}) {
    const auto at = read(variables);
    CHECK(at.is_alone());
    CHECK_THAT(at.doubt,
               ContainsSubstring(variables.rbegin()->first + "=")
                 || ContainsSubstring(variables.begin()->first + "="));
  }
  // The variables of a batch script and of a supported launcher leave no doubt.
  CHECK(read({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}).doubt == "");
  CHECK(read({{"PMIX_RANK", "1"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}}).doubt
        == "");
}

TEST_CASE("variables that make no sense are named") {
  check_refused({{"RANK", "0"}}, "WORLD_SIZE is missing");
  check_refused({{"WORLD_SIZE", "2"}}, "RANK is missing");
  check_refused({{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK=x");
  check_refused({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 and");
  check_refused({{"RANK", "2"}, {"WORLD_SIZE", "2147483647"}},
                "at most 65536 processes");
  check_refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}},
                "LOCAL_WORLD_SIZE=3");
  check_refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "99999"}},
                "MASTER_PORT=99999");
}
