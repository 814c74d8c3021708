#include "analyzer/web/metrics.h"

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/verdict.h"
#include "analyzer/report/verdict_json.h"
#include "common/clock.h"
#include "common/utf8.h"
#include "common/version.h"

namespace gordian::web {
namespace {

using nlohmann::ordered_json;

struct Family {
  const char* name;
  const char* type;
  const char* help;
};

// Without the prefix, and for counters without the suffix "_total".
constexpr Family kFamilies[] = {
    {"build", "info", "The gordian that exports this."},
    {"jobs", "gauge", "Jobs that this gordian knows."},
    {"job", "info", "The job's present verdict."},
    {"ranks_seen", "gauge", "Ranks whose calls gordian sees."},
    {"ranks_expected", "gauge", "Ranks that the job has, as far as known."},
    {"rank", "info", "Where a rank runs."},
    {"rank_state", "gauge", "How many ranks are in a state."},
    {"host_blocked_seconds", "gauge", "How long a rank has been in the call that it is in."},
    {"nccl_calls", "counter", "NCCL calls of a rank."},
    {"comm_sequence", "gauge", "The last collective that the fastest member has called."},
    {"comm_sequence_lag", "gauge", "How many collectives a rank that is behind lacks."},
    {"hang_suspected", "gauge", "1: gordian suspects that the job hangs, without a proof."},
    {"deadlock_detected", "gauge", "1: it is proven that the job cannot go on."},
    {"deadlocks", "counter", "Confirmed verdicts since this gordian started."},
    {"since_progress_seconds", "gauge", "How long no rank has called or finished anything."},
    {"last_event_timestamp_seconds", "gauge", "When a rank last called or finished anything."},
    {"capture_records", "counter", "Records of calls that gordian has read."},
    {"capture_events_dropped", "counter", "Records that were lost."},
    {"nodes_away", "gauge", "Nodes of the job whose gordian is not connected."},
    {"http_viewers", "gauge", "Pages that are open on this server."},
    {"http_requests", "counter", "Requests answered, by status."},
};

using Labels = std::initializer_list<std::pair<const char*, std::string>>;

// Gathers the samples of each family, which must stand together in the text.
class Text {
 public:
  void Add(std::string_view family, Labels labels, double value) {
    std::string line;
    for (const auto& [label, text] : labels) {
      line += fmt::format("{}{}=\"{}\"", line.empty() ? "" : ",", label, Escape(text));
    }
    if (!line.empty()) line = "{" + line + "}";
    samples_[std::string(family)] +=
        fmt::format("gordian_{}{}{} {}\n", family, SuffixOf(family), line, value);
  }

  // The older format has no type "info", and calls a counter by its samples' name.
  std::string Take(MetricsFormat format) const {
    const bool open = format == MetricsFormat::kOpenMetrics;
    std::string out;
    for (const Family& family : kFamilies) {
      const auto found = samples_.find(family.name);
      if (found == samples_.end()) continue;
      const std::string name =
          fmt::format("gordian_{}{}", family.name, open ? "" : SuffixOf(family.name));
      const bool info = std::string_view(family.type) == "info";
      out += fmt::format("# TYPE {} {}\n# HELP {} {}\n{}", name,
                         info && !open ? "gauge" : family.type, name, family.help, found->second);
    }
    return open ? out + "# EOF\n" : out;
  }

  static const char* SuffixOf(std::string_view name) {
    for (const Family& family : kFamilies) {
      if (name != family.name) continue;
      const std::string_view type = family.type;
      return type == "counter" ? "_total" : type == "info" ? "_info" : "";
    }
    return "";
  }

 private:
  static std::string Escape(const std::string& text) {
    std::string out;
    for (const char c : Printable(CleanUtf8(text))) {
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
    return out;
  }

  std::map<std::string, std::string> samples_;
};

std::string TextOf(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

double NumberOf(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number() ? found->get<double>() : -1;
}

bool IsTrue(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_boolean() && found->get<bool>();
}

const ordered_json& ListOf(const ordered_json& from, const char* key) {
  static const ordered_json kNone = ordered_json::array();
  const auto found = from.find(key);
  return found != from.end() && found->is_array() ? *found : kNone;
}

std::string Digits(double number) { return fmt::format("{:.0f}", number); }

void AddRanks(const std::string& job, const ordered_json& status, Text* text) {
  std::map<std::string, int> states = {
      {"running", 0}, {"in_call", 0}, {"stopped", 0}, {"ended", 0}};
  for (const ordered_json& rank : ListOf(status, "ranks")) {
    const std::string number = Digits(NumberOf(rank, "rank"));
    ++states[TextOf(rank, "state")];
    text->Add("rank",
              {{"job", job},
               {"rank", number},
               {"node", TextOf(rank, "node")},
               {"pid", Digits(NumberOf(rank, "pid"))}},
              1);
    text->Add("nccl_calls", {{"job", job}, {"rank", number}}, NumberOf(rank, "nccl_calls"));
    if (TextOf(rank, "state") == "in_call" && NumberOf(rank, "since_s") >= 0) {
      text->Add("host_blocked_seconds",
                {{"job", job}, {"rank", number}, {"api", TextOf(rank, "call")}},
                NumberOf(rank, "since_s"));
    }
  }
  for (const auto& [state, count] : states) {
    text->Add("rank_state", {{"job", job}, {"state", state}}, count);
  }
}

void AddCommunicators(const std::string& job, const ordered_json& status, Text* text) {
  for (const ordered_json& comm : ListOf(status, "communicators")) {
    if (IsTrue(comm, "destroyed")) continue;
    const std::string uid = TextOf(comm, "uid"), name = TextOf(comm, "name");
    text->Add("comm_sequence", {{"job", job}, {"comm", uid}, {"comm_name", name}},
              NumberOf(comm, "sequence_max"));
    const ordered_json& behind = ListOf(comm, "behind");
    const ordered_json& by = ListOf(comm, "behind_by");
    for (size_t i = 0; i < behind.size() && i < by.size(); ++i) {
      if (!behind[i].is_number_integer() || !by[i].is_number_integer()) continue;
      text->Add("comm_sequence_lag",
                {{"job", job},
                 {"comm", uid},
                 {"comm_name", name},
                 {"rank", std::to_string(behind[i].get<int64_t>())}},
                by[i].get<double>());
    }
  }
}

void AddJob(const MetricJob& job, Text* text) {
  const ordered_json& status = job.status;
  const std::string verdict = TextOf(status, "verdict");
  const std::string confidence = TextOf(status, "confidence");
  text->Add("job",
            {{"job", job.job},
             {"check", TextOf(status, "check")},
             {"confidence", confidence},
             {"verdict", verdict}},
            1);
  model::VerdictKind kind{};
  const bool trouble = analyzer::ParseVerdictKind(verdict, &kind) && model::SaysTrouble(kind);
  text->Add("hang_suspected", {{"job", job.job}, {"verdict", verdict}},
            trouble && confidence != "confirmed");
  text->Add("deadlock_detected", {{"job", job.job}, {"verdict", verdict}},
            trouble && confidence == "confirmed");
  if (const double since = NumberOf(status, "since_progress_s"); since >= 0) {
    text->Add("since_progress_seconds", {{"job", job.job}}, since);
    text->Add("last_event_timestamp_seconds", {{"job", job.job}},
              static_cast<double>(RealNs()) / 1e9 - since);
  }
  double away = 0;
  for (const ordered_json& node : ListOf(status, "nodes")) away += IsTrue(node, "away") ? 1 : 0;
  text->Add("nodes_away", {{"job", job.job}}, away);
  if (const auto evidence = status.find("evidence");
      evidence != status.end() && evidence->is_object()) {
    text->Add("ranks_seen", {{"job", job.job}}, NumberOf(*evidence, "ranks_seen"));
    text->Add("ranks_expected", {{"job", job.job}}, NumberOf(*evidence, "ranks_expected"));
    text->Add("capture_records", {{"job", job.job}}, NumberOf(*evidence, "records"));
    text->Add("capture_events_dropped", {{"job", job.job}}, NumberOf(*evidence, "records_lost"));
  }
  AddRanks(job.job, status, text);
  AddCommunicators(job.job, status, text);
}

}  // namespace

std::string MetricsText(const std::vector<MetricJob>& jobs, const ServerMetrics* server,
                        MetricsFormat format) {
  Text text;
  text.Add("build", {{"version", kVersion}}, 1);
  double running = 0, ended = 0;
  for (const MetricJob& job : jobs) {
    (IsTrue(job.status, "job_ended") ? ended : running) += 1;
    AddJob(job, &text);
  }
  text.Add("jobs", {{"state", "running"}}, running);
  text.Add("jobs", {{"state", "ended"}}, ended);
  if (server != nullptr) {
    text.Add("http_viewers", {}, static_cast<double>(server->viewers));
    for (const auto& [status, count] : server->answers) {
      text.Add("http_requests", {{"code", std::to_string(status)}}, static_cast<double>(count));
    }
    for (const auto& [verdict, count] : server->deadlocks) {
      text.Add("deadlocks", {{"verdict", verdict}}, static_cast<double>(count));
    }
  }
  return text.Take(format);
}

std::vector<std::pair<std::string, std::string>> MetricNames() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const Family& family : kFamilies) {
    names.emplace_back(std::string("gordian_") + family.name + Text::SuffixOf(family.name),
                       family.type);
  }
  return names;
}

}  // namespace gordian::web
