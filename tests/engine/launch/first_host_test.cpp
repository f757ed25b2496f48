#include "troupe/engine/launch/environment.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("the first host of a list of Slurm's") {
  CHECK(first_of_node_list("node7") == "node7");
  CHECK(first_of_node_list("a,b") == "a");
  CHECK(first_of_node_list("node[01-03,7],x1") == "node01");
  CHECK(first_of_node_list("node[12,4-5]") == "node12");
  CHECK(first_of_node_list("rack[2-3]n[05-06]-ib") == "rack2n05-ib");
  CHECK(first_of_node_list("n-1.cluster") == "n-1.cluster");
  for (const auto* bad :
       {"", ",a", "a[", "a[]", "a[,1]", "a b", "a[1;2]", "a;rm", "\xc3\xa4"})
    CHECK_FALSE(first_of_node_list(bad));
  CHECK_FALSE(first_of_node_list(std::string(256, 'a')));
}

TEST_CASE("the address of mpirun in its URI") {
  CHECK(address_of_mpirun(
          "1442775040.0;tcp://192.0.2.2,10.1.0.1:50315;tcp6://[fd00::2]:44807")
        == "192.0.2.2");
  CHECK(address_of_mpirun("7.0;tcp6://[fd00::2,fd00::3]:44807") == "[fd00::2]");
  for (const auto* bad : {"", "7.0", "7.0;tcp://", "7.0;tcp6://[", "tcp:// a"})
    CHECK_FALSE(address_of_mpirun(bad));
}

TEST_CASE("jobs have ports") {
  CHECK(port_of_job("11.0") == port_of_job("11.0"));
  CHECK(port_of_job("11.0") != port_of_job("12.0"));
  for (int job = 0; job < 1000; ++job) {
    const auto port = port_of_job(std::to_string(job));
    REQUIRE((port >= 20000 && port < 30000));
  }
}
