#include "cli/mcp/mcp_tools.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "analyzer/report/check_text.h"
#include "analyzer/report/verdict_json.h"
#include "cli/analyze/recorded.h"
#include "cli/job/session.h"

namespace gordian::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// As many as a model has use for.
constexpr size_t kMostSessions = 200;
constexpr int kTextWidth = 100;

bool IsSession(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) &&
         (fs::exists(path / "trace.gtrace", error) || fs::exists(path / "verdict.json", error));
}

bool IsBelow(const fs::path& path, const fs::path& root) {
  const auto [at, end] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  (void)end;
  return at == root.end();
}

// What is read of a session follows links: so none may be there but the socket's.
bool HoldsLinks(const fs::path& session) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(session, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_symlink(error)) return true;
  }
  return static_cast<bool>(error);
}

ordered_json Arguments(ordered_json properties, std::vector<std::string> required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

ordered_json TextArgument(const char* description) {
  return {{"type", "string"}, {"description", description}};
}
ordered_json RankArgument(const char* description) {
  return {{"type", "integer"}, {"minimum", 0}, {"description", description}};
}
const ordered_json& SessionArgument() {
  static const ordered_json argument =
      TextArgument("A session's name, as list_sessions gives it, or its path");
  return argument;
}

// What AsDecided says, and the notes that a person would get.
struct Decided {
  ordered_json verdict;
  std::string note;
};

StatusOr<Decided> Decide(const SessionFolders& folders, const ordered_json& arguments) {
  const StatusOr<std::string> path = folders.Find(arguments["session"]);
  GORDIAN_RETURN_IF_ERROR(path.status());
  const StatusOr<RecordedVerdict> recorded = AsDecided(*path);
  GORDIAN_RETURN_IF_ERROR(recorded.status());
  return Decided{analyzer::VerdictToJson(recorded->verdict, recorded->sites), recorded->note};
}

StatusOr<ordered_json> Verdict(const SessionFolders& folders, const ordered_json& arguments) {
  StatusOr<Decided> decided = Decide(folders, arguments);
  GORDIAN_RETURN_IF_ERROR(decided.status());
  decided->verdict.erase("stacks");  // another tool's
  return ordered_json{{"verdict", std::move(decided->verdict)}, {"note", decided->note}};
}

StatusOr<ordered_json> WhoWaits(const SessionFolders& folders, const ordered_json& arguments) {
  const StatusOr<Decided> decided = Decide(folders, arguments);
  GORDIAN_RETURN_IF_ERROR(decided.status());
  const int rank = arguments.value("rank", -1);
  const ordered_json& verdict = decided->verdict;
  ordered_json waits = ordered_json::array(), operations = ordered_json::array();
  for (const ordered_json& edge : verdict["cycle"]) {
    if (rank < 0 || edge["rank"] == rank || edge["waits_for_rank"] == rank) waits.push_back(edge);
  }
  for (const ordered_json& operation : verdict["operations"]) {
    const ordered_json& members = operation["members"];
    if (rank < 0 || std::any_of(members.begin(), members.end(), [&](const ordered_json& member) {
          return member["rank"] == rank;
        })) {
      operations.push_back(operation);
    }
  }
  return ordered_json{{"verdict", verdict["verdict"]}, {"confidence", verdict["confidence"]},
                      {"summary", verdict["summary"]}, {"culprit_ranks", verdict["culprit_ranks"]},
                      {"waits", std::move(waits)},     {"operations", std::move(operations)},
                      {"note", decided->note}};
}

StatusOr<ordered_json> Stacks(const SessionFolders& folders, const ordered_json& arguments) {
  const StatusOr<Decided> decided = Decide(folders, arguments);
  GORDIAN_RETURN_IF_ERROR(decided.status());
  const int rank = arguments.value("rank", -1);
  ordered_json stacks = ordered_json::array();
  for (const ordered_json& stack : decided->verdict["stacks"]) {
    const ordered_json& ranks = stack["ranks"];
    if (rank < 0 || std::find(ranks.begin(), ranks.end(), rank) != ranks.end())
      stacks.push_back(stack);
  }
  return ordered_json{{"stacks", std::move(stacks)}, {"note", decided->note}};
}

StatusOr<ordered_json> RankDiff(const SessionFolders& folders, const ordered_json& arguments) {
  const StatusOr<std::string> path = folders.Find(arguments["session"]);
  GORDIAN_RETURN_IF_ERROR(path.status());
  const StatusOr<RecordedStatus> status = StatusAsRecorded(*path);
  GORDIAN_RETURN_IF_ERROR(status.status());
  const ordered_json json = ordered_json::parse(status->json);
  const int first = arguments["rank"], second = arguments["other"];
  ordered_json ranks = ordered_json::array();
  for (const int wanted : {first, second}) {
    const ordered_json& known = json["ranks"];
    const auto found = std::find_if(known.begin(), known.end(), [&](const ordered_json& rank) {
      return rank["rank"] == wanted;
    });
    if (found == known.end()) {
      return Status::InvalidArgument("the session knows no rank " + std::to_string(wanted) +
                                     ": it has " + std::to_string(known.size()) + " ranks");
    }
    ranks.push_back(*found);
  }
  ordered_json differ = ordered_json::array();
  for (const auto& [key, value] : ranks[0].items()) {
    if (key == "rank" || value == ranks[1][key]) continue;
    differ.push_back({{"field", key}, {"rank", value}, {"other", ranks[1][key]}});
  }
  ordered_json communicators = ordered_json::array();
  for (const ordered_json& comm : json["communicators"]) {
    const auto behind = [&](int rank) {
      const ordered_json& late = comm["behind"];
      const auto at = std::find(late.begin(), late.end(), rank);
      return at == late.end() ? ordered_json(0)
                              : comm["behind_by"][static_cast<size_t>(at - late.begin())];
    };
    const auto member = [&](int rank) {
      return std::find(comm["ranks"].begin(), comm["ranks"].end(), rank) != comm["ranks"].end();
    };
    const bool one = member(first), other = member(second);
    if (one == other && behind(first) == behind(second)) continue;
    communicators.push_back({{"name", comm["name"]},
                             {"rank_is_member", one},
                             {"other_is_member", other},
                             {"rank_behind_by", behind(first)},
                             {"other_behind_by", behind(second)}});
  }
  return ordered_json{{"ranks", std::move(ranks)},
                      {"fields_that_differ", std::move(differ)},
                      {"communicators_that_differ", std::move(communicators)},
                      {"note", status->note}};
}

StatusOr<ordered_json> ListSessions(const SessionFolders& folders) {
  ordered_json sessions = ordered_json::array();
  const std::vector<SessionFolders::Found> found = folders.List();
  for (size_t i = 0; i < std::min(found.size(), kMostSessions); ++i) {
    ordered_json session = {{"name", found[i].name}, {"path", found[i].path.string()}};
    const StatusOr<analyzer::VerdictDocument> document =
        HoldsLinks(found[i].path)
            ? StatusOr<analyzer::VerdictDocument>(Status::InvalidArgument("it holds a link"))
            : analyzer::ReadVerdictFile((found[i].path / "verdict.json").string());
    session["verdict"] = document.ok() ? model::Name(document->verdict.main.verdict) : "";
    session["summary"] = document.ok() ? document->verdict.main.summary : "";
    session["problem"] = document.ok() ? "" : document.status().message();
    sessions.push_back(std::move(session));
  }
  return ordered_json{{"sessions", std::move(sessions)},
                      {"left_out", found.size() - std::min(found.size(), kMostSessions)}};
}

StatusOr<ordered_json> ExplainCheck(const ordered_json& arguments) {
  const std::string id = arguments["check"];
  const model::Check* const check = model::FindCheck(id);
  if (check == nullptr) {
    return Status::InvalidArgument("there is no check '" + id +
                                   "': a verdict names its own under \"check\"");
  }
  return ordered_json{{"check", id}, {"text", analyzer::CheckText(*check, kTextWidth)}};
}

}  // namespace

StatusOr<SessionFolders> SessionFolders::Open(const std::vector<std::string>& folders) {
  SessionFolders opened;
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::path path = fs::canonical(folder, error);
    if (error) return Status::FromErrno(error.value(), "cannot read " + folder);
    if (!fs::is_directory(path, error)) return Status::InvalidArgument(folder + " is no folder");
    opened.roots_.push_back(path);
  }
  return opened;
}

std::vector<SessionFolders::Found> SessionFolders::List() const {
  std::vector<std::pair<fs::file_time_type, Found>> found;
  const auto add = [&](const fs::path& path) {
    std::error_code error;
    if (!IsSession(path)) return;
    const fs::file_time_type when = fs::last_write_time(path, error);
    found.push_back({error ? fs::file_time_type::min() : when, {path.filename().string(), path}});
  };
  for (const fs::path& root : roots_) {
    add(root);
    std::error_code error;
    for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
      std::error_code ignored;
      if (!at->is_symlink(ignored)) add(at->path());
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Found> sessions;
  for (auto& [when, one] : found) sessions.push_back(std::move(one));
  return sessions;
}

StatusOr<std::string> SessionFolders::Find(const std::string& session) const {
  std::vector<fs::path> candidates;
  if (fs::path(session).is_absolute()) {
    candidates.emplace_back(session);
  } else {
    for (const fs::path& root : roots_) {
      if (root.filename() == session) candidates.push_back(root);
      candidates.push_back(root / session);
    }
  }
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    const fs::path path = fs::canonical(candidate, error);
    if (error) continue;
    const bool allowed = std::any_of(roots_.begin(), roots_.end(),
                                     [&](const fs::path& root) { return IsBelow(path, root); });
    if (!allowed || !IsSession(path)) continue;
    if (HoldsLinks(path)) {
      return Status::InvalidArgument("session '" + session +
                                     "' holds a link, which is not followed");
    }
    return path.string();
  }
  return Status::NotFound("there is no session '" + session +
                          "' in the folders that gordian mcp was given (see list_sessions)");
}

std::vector<McpTool> SessionTools(const SessionFolders& folders) {
  std::vector<McpTool> tools;
  tools.push_back({"list_sessions",
                   "Recorded jobs, newest first, with the verdict that was decided on each",
                   Arguments(ordered_json::object(), {}),
                   [folders](const ordered_json&) { return ListSessions(folders); }});
  tools.push_back(
      {"verdict",
       "What hangs in a job, how sure that is, whose fault it is, what to change, and "
       "what the evidence lacks (schema gordian.verdict.v1, without stacks)",
       Arguments({{"session", SessionArgument()}}, {"session"}),
       [folders](const ordered_json& arguments) { return Verdict(folders, arguments); }});
  tools.push_back(
      {"who_waits",
       "The cycle of waits, and the operations that are stuck with the state of each member",
       Arguments({{"session", SessionArgument()},
                  {"rank", RankArgument("Only what this rank takes part in")}},
                 {"session"}),
       [folders](const ordered_json& arguments) { return WhoWaits(folders, arguments); }});
  tools.push_back(
      {"rank_diff",
       "How two ranks differ at the end of the records: state, call, site, and how far behind "
       "each is on its communicators",
       Arguments({{"session", SessionArgument()},
                  {"rank", RankArgument("A rank")},
                  {"other", RankArgument("The rank to compare it with")}},
                 {"session", "rank", "other"}),
       [folders](const ordered_json& arguments) { return RankDiff(folders, arguments); }});
  tools.push_back(
      {"stacks", "Stacks of the threads that were stuck, equal ones folded",
       Arguments({{"session", SessionArgument()}, {"rank", RankArgument("Only this rank's")}},
                 {"session"}),
       [folders](const ordered_json& arguments) { return Stacks(folders, arguments); }});
  tools.push_back(
      {"explain_check",
       "What a check means, what it needs to have seen, what can fool it, what to do",
       Arguments({{"check", TextArgument("Its id, as in a verdict's \"check\"")}}, {"check"}),
       ExplainCheck});
  return tools;
}

}  // namespace gordian::cli
