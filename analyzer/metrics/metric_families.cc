#include "analyzer/metrics/metric_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/verdict.h"
#include "analyzer/report/verdict_json.h"
#include "common/clock.h"
#include "common/version.h"

namespace gordian::metrics {
namespace {

using nlohmann::ordered_json;

struct Description {
  const char* name;  // without the prefix
  MetricType type;
  const char* unit;
  const char* help;
};

constexpr MetricType kGauge = MetricType::kGauge;
constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kInfo = MetricType::kInfo;
constexpr char kSeconds[] = "seconds";

constexpr Description kDescriptions[] = {
    {"build", kInfo, "", "The gordian that exports this."},
    {"jobs", kGauge, "", "Jobs that this gordian knows."},
    {"job", kInfo, "", "The job's present verdict."},
    {"ranks_seen", kGauge, "", "Ranks whose calls gordian sees."},
    {"ranks_expected", kGauge, "", "Ranks that the job has, as far as known."},
    {"rank", kInfo, "", "Where a rank runs."},
    {"rank_state", kGauge, "", "How many ranks are in a state."},
    {"host_blocked_seconds", kGauge, kSeconds,
     "How long a rank has been in the call that it is in."},
    {"nccl_calls", kCounter, "", "NCCL calls of a rank."},
    {"comm_sequence", kGauge, "", "The last collective that the fastest member has called."},
    {"comm_sequence_lag", kGauge, "", "How many collectives a rank that is behind lacks."},
    {"hang_suspected", kGauge, "", "1: gordian suspects that the job hangs, without a proof."},
    {"deadlock_detected", kGauge, "", "1: it is proven that the job cannot go on."},
    {"deadlocks", kCounter, "", "Confirmed verdicts since this gordian started."},
    {"since_progress_seconds", kGauge, kSeconds,
     "How long no rank has called or finished anything."},
    {"last_event_timestamp_seconds", kGauge, kSeconds,
     "When a rank last called or finished anything."},
    {"capture_records", kCounter, "", "Records of calls that gordian has read."},
    {"capture_events_dropped", kCounter, "", "Records that were lost."},
    {"nodes_away", kGauge, "", "Nodes of the job whose gordian is not connected."},
    {"http_viewers", kGauge, "", "Pages that are open on this server."},
    {"http_requests", kCounter, "", "Requests answered, by status."},
};

// Gathers the samples of each family.
class Gathering {
 public:
  void Add(std::string_view name, std::vector<std::pair<const char*, std::string>> labels,
           double value) {
    if (value < 0) return;  // nothing is: the status lacks it
    samples_[name].push_back({.labels = std::move(labels), .value = value});
  }

  std::vector<MetricFamily> Take() {
    std::vector<MetricFamily> families = AllFamilies();
    for (size_t i = 0; i < families.size(); ++i) {
      families[i].samples = std::move(samples_[kDescriptions[i].name]);
    }
    std::erase_if(families, [](const MetricFamily& family) { return family.samples.empty(); });
    return families;
  }

 private:
  std::map<std::string_view, std::vector<Sample>> samples_;
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

void AddRanks(const std::string& job, const ordered_json& status, Gathering* out) {
  std::map<std::string, int> states = {
      {"running", 0}, {"in_call", 0}, {"stopped", 0}, {"ended", 0}};
  // Several processes have one number where one came in another's place, or before they have any.
  std::map<std::string, double> calls;
  std::map<std::pair<std::string, std::string>, double> blocked;  // by number and call
  for (const ordered_json& rank : ListOf(status, "ranks")) {
    const std::string number = Digits(NumberOf(rank, "rank"));
    ++states[TextOf(rank, "state")];
    out->Add("rank",
             {{"job", job},
              {"rank", number},
              {"node", TextOf(rank, "node")},
              {"pid", Digits(NumberOf(rank, "pid"))}},
             1);
    calls[number] += NumberOf(rank, "nccl_calls");
    if (TextOf(rank, "state") == "in_call" && NumberOf(rank, "since_s") >= 0) {
      double& longest = blocked[{number, TextOf(rank, "call")}];
      longest = std::max(longest, NumberOf(rank, "since_s"));
    }
  }
  for (const auto& [number, count] : calls)
    out->Add("nccl_calls", {{"job", job}, {"rank", number}}, count);
  for (const auto& [call, seconds] : blocked)
    out->Add("host_blocked_seconds", {{"job", job}, {"rank", call.first}, {"api", call.second}},
             seconds);
  for (const auto& [state, count] : states) {
    out->Add("rank_state", {{"job", job}, {"state", state}}, count);
  }
}

void AddCommunicators(const std::string& job, const ordered_json& status, Gathering* out) {
  for (const ordered_json& comm : ListOf(status, "communicators")) {
    if (IsTrue(comm, "destroyed")) continue;
    const std::string uid = TextOf(comm, "uid"), name = TextOf(comm, "name");
    out->Add("comm_sequence", {{"job", job}, {"comm", uid}, {"comm_name", name}},
             NumberOf(comm, "sequence_max"));
    const ordered_json& behind = ListOf(comm, "behind");
    const ordered_json& by = ListOf(comm, "behind_by");
    for (size_t i = 0; i < behind.size() && i < by.size(); ++i) {
      if (!behind[i].is_number_integer() || !by[i].is_number_integer()) continue;
      out->Add("comm_sequence_lag",
               {{"job", job},
                {"comm", uid},
                {"comm_name", name},
                {"rank", std::to_string(behind[i].get<int64_t>())}},
               by[i].get<double>());
    }
  }
}

void AddJob(const MetricJob& job, Gathering* out) {
  const ordered_json& status = job.status;
  const std::string verdict = TextOf(status, "verdict");
  const std::string confidence = TextOf(status, "confidence");
  out->Add("job",
           {{"job", job.job},
            {"check", TextOf(status, "check")},
            {"confidence", confidence},
            {"verdict", verdict}},
           1);
  model::VerdictKind kind{};
  const bool trouble = analyzer::ParseVerdictKind(verdict, &kind) && model::SaysTrouble(kind);
  out->Add("hang_suspected", {{"job", job.job}, {"verdict", verdict}},
           trouble && confidence != "confirmed");
  out->Add("deadlock_detected", {{"job", job.job}, {"verdict", verdict}},
           trouble && confidence == "confirmed");
  if (const double since = NumberOf(status, "since_progress_s"); since >= 0) {
    out->Add("since_progress_seconds", {{"job", job.job}}, since);
    out->Add("last_event_timestamp_seconds", {{"job", job.job}},
             static_cast<double>(RealNs()) / 1e9 - since);
  }
  double away = 0;
  for (const ordered_json& node : ListOf(status, "nodes")) away += IsTrue(node, "away") ? 1 : 0;
  out->Add("nodes_away", {{"job", job.job}}, away);
  if (const auto evidence = status.find("evidence");
      evidence != status.end() && evidence->is_object()) {
    out->Add("ranks_seen", {{"job", job.job}}, NumberOf(*evidence, "ranks_seen"));
    out->Add("ranks_expected", {{"job", job.job}}, NumberOf(*evidence, "ranks_expected"));
    out->Add("capture_records", {{"job", job.job}}, NumberOf(*evidence, "records"));
    out->Add("capture_events_dropped", {{"job", job.job}}, NumberOf(*evidence, "records_lost"));
  }
  AddRanks(job.job, status, out);
  AddCommunicators(job.job, status, out);
}

}  // namespace

const std::string& Sample::job() const {
  static const std::string kNone;
  for (const auto& [label, text] : labels) {
    if (std::string_view(label) == "job") return text;
  }
  return kNone;
}

std::string MetricFamily::SampleName() const {
  return name + (type == kCounter ? "_total" : type == kInfo ? "_info" : "");
}

std::vector<MetricFamily> FamiliesOf(const std::vector<MetricJob>& jobs, const OwnMetrics& own) {
  Gathering out;
  out.Add("build", {{"version", kVersion}}, 1);
  double running = 0, ended = 0;
  for (const MetricJob& job : jobs) {
    (IsTrue(job.status, "job_ended") ? ended : running) += 1;
    AddJob(job, &out);
  }
  out.Add("jobs", {{"state", "running"}}, running);
  out.Add("jobs", {{"state", "ended"}}, ended);
  for (const auto& [verdict, count] : own.deadlocks) {
    out.Add("deadlocks", {{"verdict", verdict}}, static_cast<double>(count));
  }
  if (own.http) {
    out.Add("http_viewers", {}, static_cast<double>(own.http->viewers));
    for (const auto& [status, count] : own.http->answers) {
      out.Add("http_requests", {{"code", std::to_string(status)}}, static_cast<double>(count));
    }
  }
  return out.Take();
}

std::vector<MetricFamily> AllFamilies() {
  std::vector<MetricFamily> families;
  for (const Description& one : kDescriptions) {
    families.push_back({.name = std::string("gordian_") + one.name,
                        .type = one.type,
                        .unit = one.unit,
                        .help = one.help});
  }
  return families;
}

}  // namespace gordian::metrics
