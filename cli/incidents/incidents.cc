// gordian incidents: lists the troubles of jobs that gordian saw, and takes acknowledgements.
#include <pwd.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/incidents/incident_store.h"
#include "analyzer/incidents/incidents_json.h"
#include "cli/incidents/run_incidents.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/shell_quote.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

constexpr char kDefaultSessions[] = "gordian-sessions";

struct IncidentsFlags {
  std::string sessions;  // empty: of gordian run
  bool all = false;
  std::string job;
  std::string since;
  bool json = false;
  std::string acknowledge, note;
};

// "7d", "12h", "30m", "90s", or seconds.
StatusOr<uint64_t> ParseAge(const std::string& text) {
  uint64_t unit_s = 1;
  std::string number = text;
  for (const auto& [letter, seconds] :
       {std::pair{'d', 86400}, std::pair{'h', 3600}, std::pair{'m', 60}, std::pair{'s', 1}}) {
    if (!text.ends_with(letter)) continue;
    unit_s = static_cast<uint64_t>(seconds);
    number.pop_back();
    break;
  }
  const StatusOr<double> parsed = ParseSeconds("--since", number);
  if (!parsed.ok() || *parsed > 1e6) {
    return Status::InvalidArgument("--since takes an age, as 7d, 12h, 30m or 90s");
  }
  return static_cast<uint64_t>(*parsed * static_cast<double>(unit_s) *
                               static_cast<double>(kNsPerSecond));
}

std::string UserName() {
  const passwd* const entry = getpwuid(geteuid());
  return entry != nullptr ? entry->pw_name : "uid " + std::to_string(geteuid());
}

// A store, and the folder that sessions of it lie in; "": they are whole paths.
struct Place {
  std::shared_ptr<OwnedFolder> folder;
  std::string sessions;
};

StatusOr<std::vector<Place>> PlacesOf(const IncidentsFlags& flags) {
  std::vector<Place> places;
  const auto add = [&places](StatusOr<OwnedFolder> folder, const std::string& sessions) {
    if (folder.ok()) {
      places.push_back({std::make_shared<OwnedFolder>(std::move(folder).value()), sessions});
    }
    return folder.ok() ? Status::Ok() : folder.status();
  };
  if (!flags.sessions.empty()) {
    GORDIAN_RETURN_IF_ERROR(add(OwnedFolder::Adopt(flags.sessions), flags.sessions));
    return places;
  }
  // No folder: there was no incident yet.
  for (const Status& status :
       {add(StateFolder(/*made=*/false), ""),
        flags.all ? add(OwnedFolder::Adopt(kDefaultSessions), kDefaultSessions) : Status::Ok()}) {
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  }
  return places;
}

std::string Age(uint64_t since_ns, uint64_t until_ns) {
  const uint64_t seconds = (until_ns - std::min(until_ns, since_ns)) / kNsPerSecond;
  if (seconds < 120) return std::to_string(seconds) + " s";
  if (seconds < 2 * 3600) return std::to_string(seconds / 60) + " min";
  if (seconds < 48 * 3600) return std::to_string(seconds / 3600) + " h";
  return std::to_string(seconds / 86400) + " d";
}

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text + "  ";
}

std::string Table(const std::vector<incidents::IncidentRecord>& records) {
  if (records.empty()) return "no incidents\n";
  const uint64_t now = RealNs();
  size_t job_width = 3;
  for (const auto& record : records) job_width = std::max(job_width, record.incident.job.size());
  job_width = std::min<size_t>(job_width, 30);
  std::string text = Padded("ID", 12) + Padded("OPENED", 20) + Padded("LASTED", 8) +
                     Padded("STATE", 10) + Padded("JOB", job_width) + "WHAT\n";
  for (const auto& record : records) {
    const incidents::Incident& one = record.incident;
    const bool open = one.ended_ns == 0;
    std::string opened = FormatUtc(one.opened_ns).substr(0, 19) + "Z";
    text += Padded(one.id, 12) + Padded(opened, 20) +
            Padded(Age(one.opened_ns, open ? now : one.ended_ns), 8) +
            Padded(open ? "open" : one.how_ended, 10) + Padded(Printable(one.job), job_width) +
            one.facts.verdict + " (" + one.facts.confidence + "): " + one.facts.summary + "\n";
    for (const incidents::Acknowledgement& by : record.acknowledgements) {
      text += "  acknowledged by " + by.who + " at " + FormatUtc(by.time_ns) +
              (by.note.empty() ? "" : ": " + by.note) + "\n";
    }
    if (open && !one.session.empty()) {
      text += "  next: gordian explain " + ShownQuote(one.session) + "\n";
    }
  }
  return text;
}

int Acknowledge(const IncidentsFlags& flags, const std::vector<Place>& places) {
  Status last = Status::NotFound("no incident has the id " + flags.acknowledge);
  for (const Place& place : places) {
    StatusOr<std::unique_ptr<incidents::IncidentStore>> store =
        incidents::IncidentStore::Open(*place.folder);
    if (!store.ok()) {
      last = store.status();
      continue;
    }
    const StatusOr<std::string> id = (*store)->Acknowledge(
        flags.acknowledge, {.time_ns = RealNs(), .who = UserName(), .note = flags.note});
    if (id.ok()) {
      return PrintOut(flags.json ? nlohmann::ordered_json{{"acknowledged", *id}}.dump() + "\n"
                                 : "acknowledged incident " + *id + "\n")
                 ? kExitOk
                 : kExitUsage;
    }
    last = id.status();
    if (last.code() != StatusCode::kNotFound) break;
  }
  PrintError(last.message());
  return kExitUsage;
}

int Incidents(const IncidentsFlags& flags) {
  incidents::Query query{.job = flags.job};
  Status status;
  if (flags.all && !flags.sessions.empty()) {
    status = Status::InvalidArgument("--all and --sessions exclude each other");
  } else if (!flags.note.empty() && flags.acknowledge.empty()) {
    status = Status::InvalidArgument("--note needs --ack ID");
  } else if (!flags.since.empty()) {
    const StatusOr<uint64_t> age = ParseAge(flags.since);
    status = age.status();
    if (age.ok()) query.since_ns = RealNs() - std::min(RealNs(), *age);
  }
  if (!status.ok()) {
    PrintError(status.message() + " (try: gordian incidents --help)");
    return kExitUsage;
  }
  const StatusOr<std::vector<Place>> places = PlacesOf(flags);
  if (!places.ok()) {
    PrintError(places.status().message());
    return kExitUsage;
  }
  if (!flags.acknowledge.empty()) return Acknowledge(flags, *places);
  std::vector<incidents::IncidentRecord> records;
  for (const Place& place : *places) {
    StatusOr<std::unique_ptr<incidents::IncidentStore>> store =
        incidents::IncidentStore::Open(*place.folder, {.read_only = true});
    if (!store.ok() && store.status().code() == StatusCode::kNotFound) continue;
    StatusOr<std::vector<incidents::IncidentRecord>> some =
        store.ok() ? (*store)->List(query) : store.status();
    if (!some.ok()) {
      PrintError(some.status().message());
      return kExitUsage;
    }
    for (incidents::IncidentRecord& record : *some) {
      if (!place.sessions.empty()) {
        record.incident.session = place.sessions + "/" + record.incident.session;
      }
      records.push_back(std::move(record));
    }
  }
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return a.incident.opened_ns > b.incident.opened_ns;
  });
  const bool printed =
      flags.json ? PrintOut(incidents::IncidentsJson(records) + "\n") : PrintText(Table(records));
  if (!printed) return kExitUsage;
  const bool open = std::any_of(records.begin(), records.end(),
                                [](const auto& record) { return record.incident.ended_ns == 0; });
  return open ? kExitProblem : kExitOk;
}

}  // namespace

void AddIncidentsVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<IncidentsFlags>();
  CLI::App* verb = app.add_subcommand(
      "incidents", "List the problems of jobs that gordian saw, and who has taken note");
  verb->add_option("--sessions", flags->sessions,
                   "Those of the gordian serve with this folder (default: those of gordian run)")
      ->type_name("DIR");
  verb->add_flag("--all", flags->all, "Those of gordian run, and of ./gordian-sessions");
  verb->add_option("--job", flags->job, "Only those of this job")->type_name("NAME");
  verb->add_option("--since", flags->since, "Only those of so long ago at most, as 7d, 12h or 30m")
      ->type_name("AGE");
  verb->add_flag("--json", flags->json, "Print JSON (schema gordian.incidents.v1)");
  verb->add_option("--ack", flags->acknowledge,
                   "Note that you know of the incident; the beginning of its id is enough")
      ->type_name("ID");
  verb->add_option("--note", flags->note, "With --ack: what you have to say")->type_name("TEXT");
  verb->footer(
      "Exit code: 0 no incident is open, or acknowledged; 1 one is open; 2 usage, no such "
      "incident, "
      "or unreadable.\n"
      "Example: gordian incidents --sessions /shared/gordian --since 7d");
  verb->callback([=] {
    context->needs = Needs{};
    context->chosen = [=] { return Incidents(*flags); };
  });
}

}  // namespace gordian::cli
