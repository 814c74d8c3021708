#include "analyzer/incidents/alert_document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/clock.h"
#include "common/json_text.h"

namespace gordian::incidents {
namespace {

using nlohmann::json;

Incident Hang() {
  return {.id = "aa11",
          .job = "train",
          .session = "train.2",
          .opened_ns = 1'700'000'000 * kNsPerSecond,
          .confirmed_ns = 1'700'000'001 * kNsPerSecond,
          .facts = {.verdict = "rank_not_joined",
                    .confidence = "confirmed",
                    .check = "rank-not-joined",
                    .summary = "Ranks 2 and 3 wait",
                    .advice = "Call it everywhere.",
                    .culprits = {{.rank = 3, .pid = 4711, .node = "node7"}, {.rank = 5}},
                    .victims = "0-2"}};
}

TEST(AlertTextTest, SaysItAllInOneParagraph) {
  EXPECT_EQ(AlertText(Hang(), kConfirmed),
            "RANK NOT JOINED (confirmed) in job train: Ranks 2 and 3 wait. Look first at rank 3 "
            "(pid 4711 on node7) and rank 5. Change: Call it everywhere.");
  Incident ended = Hang();
  ended.how_ended = kWithdrawn;
  EXPECT_EQ(AlertText(ended, kEnded),
            "Over: RANK NOT JOINED in job train (withdrawn). It was: Ranks 2 and 3 wait.");
}

TEST(AlertBodyTest, GenericJsonIsTheDocument) {
  const std::string document = AlertDocument(Hang(), kConfirmed, "/s/train.2", "http://head:7412/");
  EXPECT_EQ(AlertBody(AlertTarget::Kind::kWebhook, document, {}, 1), document);
  const json all = json::parse(document);
  EXPECT_EQ(all["schema"], "gordian.alert.v1");
  EXPECT_EQ(all["culprits"][0], (json{{"rank", 3}, {"pid", 4711}, {"node", "node7"}}));
  EXPECT_EQ(all["victims"], "0-2");
  EXPECT_EQ(all["session"], "/s/train.2");
  EXPECT_EQ(all["started"], "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(all["ended"], "");
}

TEST(AlertBodyTest, SlackGetsNoMarksOfItsOwn) {
  Incident hostile = Hang();
  hostile.job = "<!channel>&\"'\n\x1b[31m\xff";
  const std::string body =
      AlertBody(AlertTarget::Kind::kSlack, AlertDocument(hostile, kConfirmed, "s", ""), {}, 1);
  const json slack = json::parse(body);
  EXPECT_EQ(slack["blocks"][0]["text"]["text"], slack["text"]);
  EXPECT_EQ(body.find("<!channel>"), std::string::npos);
  EXPECT_NE(body.find("&lt;!channel&gt;&amp;"), std::string::npos);
  EXPECT_EQ(body.find("\\u001b"), std::string::npos);
  Incident longer = Hang();
  longer.facts.summary.assign(50'000, '<');
  const json cut = json::parse(
      AlertBody(AlertTarget::Kind::kSlack, AlertDocument(longer, kConfirmed, "s", ""), {}, 1));
  EXPECT_LE(cut["text"].get<std::string>().size(), 3000u);
}

TEST(AlertBodyTest, AlertmanagerIsToldOfTheEndUnderTheSameLabels) {
  const uint64_t now = 1'700'000'100 * kNsPerSecond;
  const auto body = [&](const std::string& document, const std::vector<std::string>& earlier) {
    return json::parse(AlertBody(AlertTarget::Kind::kAlertmanager, document, earlier, now));
  };
  Incident incident = Hang();
  incident.facts.confidence = "suspected";
  const std::string suspected = AlertDocument(incident, kSuspected, "s", "");
  const std::string confirmed = AlertDocument(Hang(), kConfirmed, "s", "");
  const std::string ended = AlertDocument(Hang(), kEnded, "s", "");

  const json first = body(suspected, {});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0]["labels"], (json{{"alertname", "GordianDeadlock"},
                                      {"job", "train"},
                                      {"verdict", "rank_not_joined"},
                                      {"severity", "warning"},
                                      {"incident", "aa11"}}));
  EXPECT_EQ(first[0]["startsAt"], "2023-11-14T22:13:20.000Z");
  EXPECT_GT(first[0]["endsAt"], "2023-11-21");

  const json second = body(confirmed, {suspected});
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0]["labels"]["severity"], "critical");
  EXPECT_EQ(second[1]["labels"], first[0]["labels"]);  // over: it has become the other
  EXPECT_LT(second[1]["endsAt"], "2023-11-15");

  const json last = body(ended, {suspected, confirmed});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0]["labels"], first[0]["labels"]);
  EXPECT_EQ(last[1]["labels"], second[0]["labels"]);
  // In the past of a clock that is a minute behind, but not before the beginning.
  for (const json& alert : last) {
    EXPECT_EQ(alert["endsAt"], "2023-11-14T22:14:00.000Z");
    EXPECT_EQ(alert["startsAt"], "2023-11-14T22:13:20.000Z");
  }
  const json soon = json::parse(AlertBody(AlertTarget::Kind::kAlertmanager, ended, {confirmed},
                                          1'700'000'002 * kNsPerSecond));
  EXPECT_EQ(soon[0]["endsAt"], "2023-11-14T22:12:22.000Z");
  EXPECT_EQ(soon[0]["startsAt"], soon[0]["endsAt"]);
}

TEST(AlertBodyTest, ADamagedDocumentIsNone) {
  for (const char* text : {"", "[]", "{", "nonsense"}) {
    EXPECT_EQ(AlertBody(AlertTarget::Kind::kSlack, text, {}, 1), "") << text;
    EXPECT_TRUE(AlertVariables(text).empty());
  }
}

TEST(AlertVariablesTest, HoldTheFacts) {
  const auto all = AlertVariables(AlertDocument(Hang(), kConfirmed, "s", ""));
  const std::map<std::string, std::string> variables(all.begin(), all.end());
  EXPECT_EQ(variables.at("GORDIAN_ALERT"), "confirmed");
  EXPECT_EQ(variables.at("GORDIAN_CULPRIT_RANKS"), "3 5");
  EXPECT_EQ(variables.at("GORDIAN_CULPRIT_PIDS"), "4711 -");
  EXPECT_EQ(variables.at("GORDIAN_CULPRIT_NODES"), "node7 -");
  EXPECT_EQ(variables.at("GORDIAN_JOB"), "train");
}

}  // namespace
}  // namespace gordian::incidents
