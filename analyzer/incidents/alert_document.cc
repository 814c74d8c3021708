#include "analyzer/incidents/alert_document.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "analyzer/model/verdict/names.h"
#include "common/clock.h"
#include "common/json_text.h"
#include "common/utf8.h"
#include "common/version.h"

namespace gordian::incidents {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostNamed = 8;  // culprits in the text
// Alertmanager forgets an alert without an end after minutes, unless it is sent again and again.
constexpr uint64_t kFiresForNs = 7ull * 24 * 3600 * kNsPerSecond;
constexpr uint64_t kClocksDifferNs = 60 * kNsPerSecond;
constexpr size_t kSlackTextBytes = 2900;  // Slack takes 3000 characters in a block

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string Time(uint64_t real_ns) { return real_ns == 0 ? "" : FormatUtc(real_ns); }

// "RANK NOT JOINED" of "rank_not_joined".
std::string Title(std::string name) {
  for (char& c : name) {
    c = c == '_' ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::string Sentence(std::string text) {
  if (!text.empty() && !text.ends_with('.') && !text.ends_with('!')) text += '.';
  return text;
}

std::string Named(const Culprit& culprit) {
  std::string text = "rank " + std::to_string(culprit.rank);
  std::string where = culprit.pid == 0 ? "" : "pid " + std::to_string(culprit.pid);
  if (!culprit.node.empty()) where += (where.empty() ? "on " : " on ") + culprit.node;
  return where.empty() ? text : text + " (" + where + ")";
}

// The beginning of `text`, whole characters of it.
std::string Cut(std::string text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes) + "...";
}

// Slack takes these three for its own marks: "<!channel>" in a name must not call everybody.
std::string EscapeForSlack(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Get(const ordered_json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

ordered_json SlackBody(const ordered_json& document) {
  const std::string text = Cut(EscapeForSlack(Get(document, "text")), kSlackTextBytes);
  std::string about = "incident " + Get(document, "incident");
  if (const std::string session = Get(document, "session"); !session.empty()) {
    about += " | session " + session;
  }
  if (const std::string page = Get(document, "page"); !page.empty()) about += " | " + page;
  const auto field = [](const std::string& shown) {
    return ordered_json{{"type", "mrkdwn"}, {"text", shown}, {"verbatim", true}};
  };
  return {{"text", text},
          {"blocks",
           {{{"type", "section"}, {"text", field(text)}},
            {{"type", "context"},
             {"elements",
              ordered_json::array({field(Cut(EscapeForSlack(about), kSlackTextBytes))})}}}}};
}

ordered_json Labels(const ordered_json& document) {
  return {{"alertname", "GordianDeadlock"},
          {"job", Get(document, "job")},
          {"verdict", Get(document, "verdict")},
          {"severity", Get(document, "confidence") == kConfirmed ? "critical" : "warning"},
          {"incident", Get(document, "incident")}};
}

ordered_json AlertmanagerAlert(const ordered_json& document, const std::string& starts_at,
                               const std::string& ends_at) {
  ordered_json alert = {{"labels", Labels(document)},
                        {"annotations",
                         {{"summary", Get(document, "text")},
                          {"description", Get(document, "summary")},
                          {"advice", Get(document, "advice")},
                          {"session", Get(document, "session")}}},
                        {"startsAt", starts_at},
                        {"endsAt", ends_at}};
  if (const std::string page = Get(document, "page"); !page.empty()) alert["generatorURL"] = page;
  return alert;
}

ordered_json AlertmanagerBody(const ordered_json& document, const std::vector<std::string>& earlier,
                              uint64_t now_ns) {
  const bool ended = Get(document, "alert") == kEnded;
  ordered_json alerts = ordered_json::array();
  if (!ended) {
    alerts.push_back(
        AlertmanagerAlert(document, Get(document, "started"), FormatUtc(now_ns + kFiresForNs)));
  }
  // Alertmanager ignores an end that lies in its future while it knows of a later one, so a clock of
  // gordian's that is a little ahead would let the alert fire for days. It refuses an end before the
  // beginning; these texts sort as their times do.
  const std::string over = FormatUtc(now_ns - std::min(now_ns, kClocksDifferNs));
  for (const std::string& text : earlier) {
    const auto before = ParseJson<ordered_json>(text);
    if (!before.is_object()) continue;
    if (!ended && Labels(before) == Labels(document)) continue;
    alerts.push_back(AlertmanagerAlert(before, std::min(Get(before, "started"), over), over));
  }
  return alerts;
}

}  // namespace

std::string AlertText(const Incident& incident, const std::string& what) {
  const Facts& facts = incident.facts;
  const std::string job = Printable(incident.job);
  if (what == kEnded) {
    return "Over: " + Title(facts.verdict) + " in job " + job + " (" + incident.how_ended +
           "). It was: " + Sentence(facts.summary);
  }
  std::string text = Title(facts.verdict) + " (" + facts.confidence + ") in job " + job + ": " +
                     Sentence(facts.summary);
  if (!facts.culprits.empty()) {
    text += " Look first at ";
    const size_t shown = std::min(facts.culprits.size(), kMostNamed);
    for (size_t i = 0; i < shown; ++i) {
      text += (i == 0 ? "" : i + 1 == shown ? " and " : ", ") + Named(facts.culprits[i]);
    }
    if (shown < facts.culprits.size()) text += ", and others";
    text += ".";
  }
  if (!facts.advice.empty()) text += " Change: " + Sentence(facts.advice);
  return text;
}

std::string AlertDocument(const Incident& incident, const std::string& what,
                          const std::string& session, const std::string& page) {
  const Facts& facts = incident.facts;
  ordered_json culprits = ordered_json::array();
  for (const Culprit& one : facts.culprits) {
    culprits.push_back({{"rank", one.rank}, {"pid", one.pid}, {"node", one.node}});
  }
  return Dump({{"schema", kAlertSchema},
               {"incident", incident.id},
               {"alert", what},
               {"job", Printable(incident.job)},
               {"verdict", facts.verdict},
               {"confidence", facts.confidence},
               {"check", facts.check},
               {"summary", facts.summary},
               {"advice", facts.advice},
               {"text", AlertText(incident, what)},
               {"culprits", std::move(culprits)},
               {"victims", facts.victims},
               {"session", session},
               {"page", page},
               {"started", Time(incident.opened_ns)},
               {"ended", Time(incident.ended_ns)},
               {"how_ended", incident.how_ended},
               {"gordian_version", kVersion}});
}

std::string AlertBody(AlertTarget::Kind kind, const std::string& document,
                      const std::vector<std::string>& earlier, uint64_t now_ns) {
  const auto json = ParseJson<ordered_json>(document);
  if (!json.is_object()) return "";
  switch (kind) {
    case AlertTarget::Kind::kSlack:
      return Dump(SlackBody(json));
    case AlertTarget::Kind::kAlertmanager:
      return Dump(AlertmanagerBody(json, earlier, now_ns));
    case AlertTarget::Kind::kWebhook:
    case AlertTarget::Kind::kExec:
      break;
  }
  return document;
}

std::vector<std::pair<std::string, std::string>> AlertVariables(const std::string& document) {
  const auto json = ParseJson<ordered_json>(document);
  if (!json.is_object()) return {};
  std::string ranks, pids, nodes;
  const auto number = [](const ordered_json& of, const char* key) {
    const auto found = of.find(key);
    return found != of.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
  };
  if (const auto culprits = json.find("culprits"); culprits != json.end()) {
    for (const auto& one : *culprits) {
      if (!one.is_object()) continue;
      const char* const between = ranks.empty() ? "" : " ";
      const int64_t pid = number(one, "pid");
      const std::string node = Get(one, "node");
      ranks += between + std::to_string(number(one, "rank"));
      pids += between + (pid == 0 ? "-" : std::to_string(pid));
      nodes += between + (node.empty() ? "-" : node);
    }
  }
  return {
      {"GORDIAN_ALERT", Get(json, "alert")},     {"GORDIAN_INCIDENT", Get(json, "incident")},
      {"GORDIAN_JOB", Get(json, "job")},         {"GORDIAN_SESSION", Get(json, "session")},
      {"GORDIAN_VERDICT", Get(json, "verdict")}, {"GORDIAN_CONFIDENCE", Get(json, "confidence")},
      {"GORDIAN_SUMMARY", Get(json, "summary")}, {"GORDIAN_TEXT", Get(json, "text")},
      {"GORDIAN_CULPRIT_RANKS", ranks},          {"GORDIAN_CULPRIT_PIDS", pids},
      {"GORDIAN_CULPRIT_NODES", nodes}};
}

}  // namespace gordian::incidents
