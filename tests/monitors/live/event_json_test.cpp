#include "troupe/monitors/live/event_json.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "sample_events.hpp"
#include "troupe/monitors/live/json_fields.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// The record's JSON in an event that holds it alone.
nlohmann::json json_of(const tensor_record& record) {
  return troupe::json_of(tensors_event{{}, true, 8, {record}})["tensors"][0];
}
tensor_record record_of(const nlohmann::json& value) {
  auto of = troupe::json_of(tensors_event{});
  of["tensors"].push_back(value);
  return std::get<tensors_event>(event_of(of)).tensors.at(0);
}

/// Through the text, as on the way to a client.
nlohmann::json travelled(const nlohmann::json& value) {
  return parse_json(json_text(value));
}

}  // namespace

TEST_CASE("events of all kinds come back as they were") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i)
    for (const auto& what : sample_events(random)) {
      const auto value = json_of(what);
      const auto again = event_of(travelled(value));
      REQUIRE(again.index() == what.index());
      // JSON has every field, and numbers keep their bits.
      CHECK(json_text(json_of(again)) == json_text(value));
    }
}

TEST_CASE("fields may come in any order, and are refused by name if missing") {
  std::mt19937_64 random(3);
  for (const auto& what : sample_events(random)) {
    const auto value = json_of(what);
    std::vector<std::string> names;
    for (const auto& [name, field] : value.items())
      names.push_back(name);
    std::ranges::shuffle(names, random);
    std::string text;
    for (const auto& name : names)  // each twice
      for (int i = 0; i < 2; ++i)
        text += (text.empty() ? "{\"" : ",\"") + name
                + "\":" + json_text(value[name]);
    CHECK(json_of(event_of(parse_json(text + "}"))) == value);
    for (const auto& name : names) {
      auto less = value;
      less.erase(name);
      CHECK_THROWS_MATCHES(
        event_of(less), error,
        MessageMatches(ContainsSubstring("'" + name + "' is missing")));
    }
  }
}

TEST_CASE("rows with disturbed values are refused") {
  const auto refused = [](const nlohmann::json& rows, const std::string& why) {
    auto value = json_of(ops_event{{.step = 1}, {{1, 2, 3, 4, 5}}});
    value["ops"] = rows;
    CHECK_THROWS_MATCHES(event_of(value), error,
                         MessageMatches(ContainsSubstring(why)));
  };
  refused({{1, 2, 3, 4, 5, 6, 7, 8}}, "'host_end' is missing in a row");
  refused({{1, 2, 3, 4, 5, 6, 7, 8, 9, 9}}, "rows of 10 values, not 9");
  refused({{1, "2", 3, 4, 5, 6, 7, 8, 9}}, "'sequence'");
  refused({{-1, 2, 3, 4, 5, 6, 7, 8, 9}}, "'op'");
  refused({{"op", 1}}, "");
  refused({1}, "'ops' is not a list of rows");
}

TEST_CASE("a histogram that is no list is refused") {
  auto value = json_of(sample_record(1));
  for (const auto& bad : {nlohmann::json(nullptr), nlohmann::json::object()}) {
    value["statistics"]["histogram"] = bad;
    CHECK_THROWS_AS(record_of(value), error);
  }
}

TEST_CASE("a record of several kinds of tensors is refused") {
  auto value = json_of(sample_record(1));
  value["kind"] = 3;
  CHECK_THROWS_MATCHES(
    record_of(value), error,
    MessageMatches(ContainsSubstring("'kind' is of an unknown kind")));
}

TEST_CASE("numbers keep their bits, and those that are not finite travel") {
  using limits = std::numeric_limits<double>;
  for (const auto value :
       {0.1, -0.0, 1.0 / 3, limits::denorm_min(), limits::max(),
        limits::lowest(), limits::infinity(), -limits::infinity(), 1e22}) {
    const auto again = value_of<double>(travelled(json_number(value)), "x");
    CHECK(again == value);
    CHECK(std::signbit(again) == std::signbit(value));
  }
  CHECK(std::isnan(
    value_of<double>(travelled(json_number(limits::quiet_NaN())), "x")));
}

TEST_CASE("statistics and tensors' names come back equal") {
  const auto record = sample_record(std::numeric_limits<double>::infinity());
  const auto again = record_of(travelled(json_of(record)));
  CHECK(again.statistics == record.statistics);
  CHECK(again.owner->name == record.owner->name);
  CHECK(again.owner->class_name == record.owner->class_name);
  CHECK(again.kind == record.kind);
  CHECK(again.dtype == record.dtype);
  CHECK(part_text(again) == part_text(record));
}

TEST_CASE("estimates from a sample come back, and only they are there") {
  auto record = sample_record(1);
  CHECK_FALSE(json_of(record).contains("sample"));
  record.sample =
    row_estimates{400, 40, 7, {}, {1, .5, .25}, {0.1, 1.0 / 3, 2}, {3, 0.7, 1}};
  CHECK(json_of(record)["sample"]["infs"] == nlohmann::json{1, .5, .25});
  CHECK(record_of(travelled(json_of(record))).sample == record.sample);
}

TEST_CASE("alerts and metrics come back") {
  const alert warning{{.step = 3, .rank = 1}, "overflow", "a \"text\"\nof two"};
  CHECK(json_of(alert_of(travelled(json_of(warning)))) == json_of(warning));
  const metrics_record record{{.step = 4},
                              {{"a/b", NAN}, {"c", 0.1}},
                              {{"h", sample_record(2).statistics}}};
  CHECK(json_of(metrics_of(travelled(json_of(record)))) == json_of(record));
}

TEST_CASE("subscriptions come back, and those that can't be are refused") {
  subscription wants;
  wants.ops = true;
  wants.tensors = tensor_kinds_of("gradient,activation_gradient");
  wants.needs = tensor_needs::statistics | tensor_needs::histogram;
  wants.names = "blocks.*,head";
  wants.every = 10;
  wants.first = 3;
  wants.sample = {0.01, 7};
  const auto again = subscription_of(travelled(json_of(wants)));
  CHECK(json_of(again) == json_of(wants));
  CHECK(json_of(subscription_of(nlohmann::json::object()))
        == json_of(subscription{}));
  for (const auto* bad :
       {R"({"every":0})", R"({"first":-1})", R"({"sample":1.1})",
        R"({"evry":2})", R"({"tensors":"none"})", "[]", R"({"every":1e3})",
        R"({"every":99999999999999999999})"})
    CHECK_THROWS_AS(subscription_of(parse_json(bad)), error);
  CHECK_THROWS_AS(subscription_of({{"names", std::string(2000, '*')}}), error);
}

TEST_CASE("garbage is an error and nothing worse") {
  CHECK_THROWS_AS(parse_json(std::string(100'000, '[')), error);
  CHECK_THROWS_AS(parse_json("{\"a\":\xff}"), error);
  CHECK(parse_json("\"[[[[{{{{[[[[{{{{[[[[{{{{[[[[{{{{[[[[\"").is_string());
  std::mt19937_64 random(11);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto samples = sample_events(random);
    auto text = json_text(json_of(samples[random() % samples.size()]));
    for (auto changes = 1 + random() % 3; changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random());
    try {
      event_of(parse_json(text));
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::malformed_text);
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
