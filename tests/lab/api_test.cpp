#include "troupe/lab/api.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../thread_seconds.hpp"
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/lab/job.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using nlohmann::json;
using troupe::testing::thread_seconds;

namespace {

json ask(const std::string& path, const json& request, unsigned status = 200) {
  const auto reply = lab::answer(path, request.dump());
  INFO(request << "\n" << reply.body.substr(0, 1000));
  CHECK(reply.status == status);
  return json::parse(reply.body);
}

json drawn(const json& request) {
  return ask("/api/draw", request);
}

std::string refusal(const json& request,
                    const std::string& path = "/api/draw") {
  return ask(path, request, 400).at("error");
}

schedule_shape shape_for(const builtin_schedule& row, std::int32_t ranks,
                         std::int32_t microbatches) {
  const auto stages = row.stages_per_rank.most == 1 ? 1 : 2;
  return {.ranks = ranks,
          .stages_per_rank = stages,
          .microbatches = microbatches,
          .slices = row.has_slices ? 2 : 1};
}

json request_for(const builtin_schedule& row, const schedule_shape& shape) {
  return {{"name", row.name},
          {"ranks", shape.ranks},
          {"stages_per_rank", shape.stages_per_rank},
          {"microbatches", shape.microbatches},
          {"slices", shape.slices}};
}

bool fits_csv(const builtin_schedule& row, const schedule_shape& shape) {
  const auto lanes = make_schedule(row.name, shape);
  return lanes.slices == 1 && lanes.placement.copies() == 1
         && lanes.update.every == 0;
}

constexpr auto deadlocking = "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n";
constexpr auto early_receive =
  "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";

}  // namespace

TEST_CASE("the lab draws each schedule of the catalogue") {
  for (const auto& row : builtin_schedules()) {
    CAPTURE(row.name);
    const auto shape = shape_for(row, 4, 8);
    const auto plan = compile(make_schedule(row.name, shape));
    const auto times = simulate(plan);
    const auto answer = drawn(request_for(row, shape));
    CHECK(answer["verdict"]["progress"] == true);
    CHECK(answer["name"] == plan.schedule_name);
    CHECK(answer["makespan"] == times.makespan);
    CHECK(answer["period"] == times.period);
    CHECK(answer["idle_by_rank"].size() == 4);
    CHECK(answer["in_flight"] == times.in_flight);
    CHECK(answer["messages"] == plan.messages.size());
    CHECK(answer["op_list"].size() == answer["ops"]);
    CHECK_FALSE(answer["critical_path"].empty());
    CHECK(answer.value("staleness", 0) == std::ranges::max(staleness_of(plan)));
  }
}

TEST_CASE("the lab's files are accepted by verify") {
  for (const auto& row : builtin_schedules()) {
    CAPTURE(row.name);
    const auto shape = shape_for(row, 4, 8);
    for (const auto* format : {"csv", "text", "plan", "lowered_csv"}) {
      CAPTURE(format);
      auto request = request_for(row, shape);
      request["format"] = format;
      const auto is_csv = std::string{format}.ends_with("csv");
      if (is_csv && !fits_csv(row, shape)) {
        CHECK_THAT(refusal(request, "/api/export"),
                   ContainsSubstring(": CSV can't express "));
        continue;
      }
      const auto answer = ask("/api/export", request);
      CHECK_THAT(answer["file"].get<std::string>(),
                 ContainsSubstring(std::string{row.name}));
      const auto text = answer["text"].get<std::string>();
      CHECK(verify(plan_from_any_text(text, "x")).progress);
      // Pasted again, it is the same schedule.
      const auto pasted = drawn({{"source", "text"}, {"text", text}});
      CHECK(pasted["op_list"] == drawn(request_for(row, shape))["op_list"]);
    }
  }
}

TEST_CASE("the lab shows what an op waited for") {
  const auto answer =
    drawn({{"ranks", 2}, {"microbatches", 1}, {"costs", "message=0.5"}});
  const json first{0, "F", 0, 0, -1, 0, 0.0, 1.0, 0, json::array()};
  const json second{1, "F", 1, 0, -1, 0, 1.5, 2.5, 0, {{0, 1.5}}};
  CHECK(answer["op_list"][0] == first);
  CHECK(answer["op_list"][2] == second);
  CHECK(answer["critical_path"] == json({0, 2, 3, 1}));
  CHECK(answer["channels"][0]
        == json({{"from", 0},
                 {"to", 1},
                 {"carries", "outputs"},
                 {"messages", 1},
                 {"credits", 1}}));
}

TEST_CASE("lanes that wait for each other are a deadlock in the lab") {
  const auto answer = drawn({{"source", "text"}, {"text", deadlocking}});
  CHECK(answer["verdict"]["progress"] == false);
  CHECK(answer["verdict"]["text"]
        == "deadlock: rank 0 at 0B0 waits for 1B0 of rank 1; rank 1 at 1F1 "
           "waits for 0F1 of rank 0");
  CHECK(answer["verdict"]["cycle"][1]
        == json({{"rank", 1},
                 {"op", "1F1"},
                 {"for", "0F1"},
                 {"text", "rank 1 at 1F1 waits for 0F1 of rank 0"}}));
  CHECK_THAT(answer["verdict"]["svg"].get<std::string>(), EndsWith("</svg>\n"));
  CHECK_FALSE(answer.contains("op_list"));
}

TEST_CASE("a plan that only some transports can run is still simulated") {
  const auto answer = drawn({{"source", "text"},
                             {"text", early_receive},
                             {"transport", "rendezvous"},
                             {"theme", "dark"}});
  CHECK(answer["verdict"]["progress"] == false);
  CHECK_THAT(answer["verdict"]["svg"].get<std::string>(),
             ContainsSubstring("#12181f"));
  CHECK(answer["op_list"].size() == 4);
  const auto shared =
    drawn({{"source", "text"}, {"text", early_receive}, {"shared_fifo", true}});
  CHECK(shared["verdict"]["cycle"].size() == 2);
  CHECK(
    drawn({{"source", "text"}, {"text", early_receive}})["verdict"]["progress"]
    == true);
}

TEST_CASE("the lab divides a rank's costs and sizes among its stages") {
  const json job{{"name", "interleaved_1f1b"}, {"ranks", 4},
                 {"stages_per_rank", 2},       {"microbatches", 8},
                 {"costs", "f=2,b=4"},         {"sizes", "kept=100"},
                 {"costs_of_rank", true},      {"memory_limit", 10}};
  const auto answer = drawn(job);
  CHECK(answer["makespan"] == 3.0 * 2 * 8 + 3 * 3);
  CHECK(answer["fits"] == false);
  auto whole = job;
  whole["costs_of_rank"] = false;
  whole["memory_limit"] = 0;
  CHECK(drawn(whole)["makespan"] == 2 * answer["makespan"].get<double>());
  CHECK(drawn(whole)["peak_bytes"][0]
        == 2 * answer["peak_bytes"][0].get<double>());
  CHECK(drawn(whole)["fits"] == true);
}

TEST_CASE("the lab generates lanes by rules") {
  const auto answer = drawn(
    {{"source", "rules"},
     {"ranks", 4},
     {"microbatches", 8},
     {"rules",
      {{"prefer", {"backward"}}, {"in_flight", 4}, {"falls_by_rank", true}}}});
  // 1F1B prefers backwards within its limits.
  CHECK(answer["makespan"] == 3 * (8 + 3));
  CHECK(answer["in_flight"] == json({4, 3, 2, 1}));
  CHECK(
    refusal({{"source", "rules"},
             {"ranks", 2},
             {"rules", {{"placement", "v_shaped"}}}})
    == "rules.placement: v_shaped needs 2 stages per rank, but there are 1");
  CHECK(refusal({{"source", "rules"}, {"rules", {{"prefer", {"luck"}}}}})
        == "unknown preference 'luck': known preferences are "
           "backward, forward, deep_stage, shallow_stage, early_microbatch, "
           "weight_backward_last");
}

TEST_CASE("the lab says exactly what is wrong") {
  CHECK(refusal({{"ranks", 0}})
        == "ranks must be a whole number in 1..64, but is 0");
  CHECK(refusal({{"ranks", "four"}})
        == "ranks must be a whole number in 1..64, but is \"four\"");
  CHECK(refusal({{"rank", 4}})
        == "the request has no field 'rank'; its fields are source, name, text, "
           "rules, ranks, stages_per_rank, microbatches, slices, breadth, "
           "costs, atomic_pairs, sizes, costs_of_rank, memory_limit, "
           "transport, "
           "shared_fifo, credits");
  CHECK(refusal({{"name", "gpipe"}, {"stages_per_rank", 2}})
        == "gpipe: stages per rank must be 1, not 2: the nearest legal "
           "value is 1 (--stages-per-rank)");
  CHECK_THAT(refusal({{"name", "2f2b"}}),
             ContainsSubstring("unknown schedule '2f2b': known schedules are"));
  CHECK(refusal({{"ranks", 64}, {"microbatches", 65}})
        == "1f1b has 4160 stages x microbatches x slices; the lab takes 4096: "
           "use fewer, or troupe plan");
  CHECK(refusal({{"source", "text"}, {"text", "0F0,0B\n"}})
        == "the text, line 1, cell 2 (column 5) '0B': a microbatch number is "
           "missing");
  for (const auto* text : {"", "\n", " \n"})
    CHECK(refusal({{"source", "text"}, {"text", text}})
          == "the text is empty; paste a CSV, a schedule's text form, or a "
             "plan");
  CHECK_THAT(refusal({{"costs", "x=1"}}), ContainsSubstring("costs 'x=1'"));
  CHECK_THAT(refusal({{"transport", "pigeon"}}),
             ContainsSubstring("unknown transport 'pigeon'"));
  CHECK(refusal({{"costs", "f.1=2"}, {"costs_of_rank", true}})
        == "costs of single stages can't be divided; omit them, or "
           "costs_of_rank");
  CHECK(refusal({{"memory_limit", -1}})
        == "memory_limit must be a number in 0..1e+18, but is -1");
  CHECK_THAT(refusal({{"format", "png"}}, "/api/export"),
             ContainsSubstring("unknown format 'png': known formats are csv"));
  CHECK(refusal(json::array()) == "the request must be a JSON object");
}

TEST_CASE("what is no request is refused") {
  CHECK(lab::answer("/api/draw", "{").body
        == R"({"error":"the request is not JSON"})");
  CHECK(lab::answer("/api/pictures", "{}").status == 404);
  const auto long_text =
    lab::answer("/api/draw", std::string(lab::most_request_bytes + 1, ' '));
  CHECK(long_text.status == 400);
  CHECK_THAT(long_text.body, ContainsSubstring("the lab takes 262144"));
  CHECK(lab::answer("/api/draw", R"({"ranks":)" + std::string(100000, '[')).body
        == R"({"error":"the request is nested more than 16 levels deep"})");
  CHECK(
    refusal({{"rules", {{"prefer", std::vector<std::string>(7, "forward")}}}})
    == "rules.prefer has 7 preferences; there are 6");
  // A file's name is not read as a file.
  CHECK_THAT(refusal({{"costs", "/etc/passwd"}}),
             ContainsSubstring("costs '/etc/passwd'"));
  CHECK_THAT(refusal({{"name", "./x.csv"}}),
             ContainsSubstring("unknown schedule './x.csv'"));
}

TEST_CASE("costs and sizes of stages that there are not are told") {
  const json request{{"ranks", 2},
                     {"microbatches", 2},
                     {"costs", "f.1=2,f.99=1,message.0-1=1,message.0-7=1"},
                     {"sizes", "kept=1,kept.2=3"}};
  CHECK(drawn(request)["without_effect"]
        == json({"f.99=1", "message.0-7=1", "sizes of stage 2"}));
  CHECK_FALSE(drawn({{"ranks", 2}, {"costs", "f.1=2,i=3,w=1"}})
                .contains("without_effect"));
}

TEST_CASE("the catalogue is told with the shapes that it takes") {
  const auto answer = ask("/api/schedules", {});
  CHECK(answer["schedules"].size() == builtin_schedules().size());
  CHECK(answer["schedules"][0]["name"] == "gpipe");
  CHECK(answer["schedules"][0]["stages_per_rank"]["most"] == 1);
  for (const auto& row : answer["schedules"]) {
    CHECK(row["usual_stages_per_rank"] >= row["stages_per_rank"]["least"]);
    CHECK(row["usual_slices"] == (row["name"] == "seq_1f1b" ? 4 : 1));
  }
}

namespace {

/// "f.0=1,f.1=1,...", as much as a request may hold.
std::string many_entries(const std::string& key, const std::string& place) {
  std::string all;
  for (int i = 0; all.size() < lab::most_request_bytes - 200; ++i)
    all += fmt::format("{}{}.{}{}=1", all.empty() ? "" : ",", key, i, place);
  return all;
}

}  // namespace

TEST_CASE("the largest requests take less than a second") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr double most = 30;
#else
  constexpr double most = 1;
#endif
  for (const auto& row : builtin_schedules())
    for (const std::int32_t ranks : {4, 16, 32}) {
      auto shape = shape_for(row, ranks, 1);
      shape.microbatches =
        lab::most_cells / ranks / shape.stages_per_rank / shape.slices;
      CAPTURE(row.name, ranks);
      auto request = request_for(row, shape);
      request["sizes"] = "kept=1,activation=1,parameters=1";
      request["transport"] = "rendezvous";
      const auto begin = thread_seconds();
      drawn(request);
      CHECK(thread_seconds() - begin < most);
    }
}

TEST_CASE("the longest lists of costs and sizes take less than a second") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr double most = 30;
#else
  constexpr double most = 1;
#endif
  const nlohmann::json listed[]{{{"costs", many_entries("f", "")}},
                                {{"costs", many_entries("message", "-65535")}},
                                {{"sizes", many_entries("kept", "")}}};
  for (const auto& request : listed) {
    const auto begin = thread_seconds();
    drawn(request);
    CHECK(thread_seconds() - begin < most);
  }
}
