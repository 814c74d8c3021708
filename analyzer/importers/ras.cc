#include "analyzer/importers/ras.h"

#include <algorithm>
#include <initializer_list>

#include "analyzer/importers/plain_data.h"
#include "analyzer/importers/ras_words.h"
#include "analyzer/importers/sources.h"

namespace gordian::importers {
namespace {

using View = PlainData::View;

constexpr size_t kMaxMembers = 1u << 20;
constexpr int64_t kMaxRank = 1 << 24;

StatusOr<int> RankOf(const View& from) {
  const auto rank = from["rank"].AsInt();
  if (!rank || *rank < 0 || *rank > kMaxRank) return Status::DataLoss("has no rank");
  return static_cast<int>(*rank);
}

std::string ProcessOf(const View& from) {
  const auto pid = from["pid"].AsInt();
  const auto device = from["cuda_dev"].AsInt();
  const std::string host(from["host"].AsText());
  if (!pid || *pid <= 0 || !device || host.empty() || host == "unknown") return "";
  return host + ":" + std::to_string(*pid) + ":" + std::to_string(*device);
}

StatusOr<RasMember> Member(const View& from) {
  RasMember member;
  StatusOr<int> rank = RankOf(from);
  GORDIAN_RETURN_IF_ERROR(rank.status());
  member.rank = *rank;
  member.process = ProcessOf(from);
  const View status = from["status"];
  member.aborted = status["abort_flag"].AsBool().value_or(false);
  member.left = status["finalize_called"].AsBool().value_or(false) ||
                status["destroy_flag"].AsBool().value_or(false);
  member.async_error =
      static_cast<int>(std::clamp<int64_t>(status["async_error"].AsInt().value_or(0), 0, 1000));
  const View counts = from["collective_counts"];
  if (counts.kind() != PlainData::Kind::kDict) return Status::DataLoss("has no collective_counts");
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto [name, count] = counts.Item(i);
    const auto value = count.AsInt();
    if (!value || *value < 0) return Status::DataLoss("has a malformed count");
    member.counts[name] = static_cast<uint64_t>(*value);
  }
  return member;
}

StatusOr<RasMember> Missing(const View& from) {
  RasMember member;
  StatusOr<int> rank = RankOf(from);
  GORDIAN_RETURN_IF_ERROR(rank.status());
  member.rank = *rank;
  member.process = ProcessOf(from);
  member.answered = false;
  // The first releases put it beside the rank, later ones into the status.
  member.dead = from["status"]["considered_dead"].AsBool().value_or(
      from["considered_dead"].AsBool().value_or(false));
  return member;
}

// Puts in the commas that 2.28.7 to 2.28.9 leave out: behind `"nvml_dev": N`, where `"status"`
// follows. A string cannot hold this text, since its quotes would have backslashes.
std::string InsertCommas(std::string_view bytes, size_t* count) {
  constexpr std::string_view kBefore = "\"nvml_dev\":", kBehind = "\"status\"";
  std::string repaired;
  size_t done = 0;
  for (size_t at = bytes.find(kBefore); at != bytes.npos; at = bytes.find(kBefore, at)) {
    at = bytes.find_first_not_of(" \t", at + kBefore.size());
    const size_t end = at == bytes.npos ? at : bytes.find_first_not_of("-0123456789", at);
    const size_t next = end == bytes.npos ? end : bytes.find_first_not_of(" \t\r\n", end);
    if (next == bytes.npos) break;
    if (end > at && bytes.substr(next, kBehind.size()) == kBehind) {
      repaired.append(bytes.substr(done, end - done)).push_back(',');
      done = end;
      ++*count;
    }
  }
  repaired.append(bytes.substr(done));
  return repaired;
}

StatusOr<PlainData> ReadReport(std::string_view bytes, size_t* repaired) {
  StatusOr<PlainData> data = ReadJson(bytes);
  if (data.ok() || bytes.find("\"nccl_version\": \"2.28.") == bytes.npos) return data;
  const std::string whole = InsertCommas(bytes, repaired);
  return *repaired > 0 ? ReadJson(whole) : std::move(data);
}

constexpr size_t kMostUnknown = 8;  // fields that are named

// Names the fields of an object that no release up to 2.30 writes.
void NameUnknown(const View& from, const char* where, std::initializer_list<std::string_view> known,
                 std::set<std::string>* unknown) {
  for (size_t i = 0; i < from.size() && unknown->size() < kMostUnknown; ++i) {
    const std::string name = from.Item(i).first;
    if (std::find(known.begin(), known.end(), name) == known.end()) unknown->insert(where + name);
  }
}

void NameUnknownMember(const View& from, std::set<std::string>* unknown) {
  NameUnknown(from, "ranks.",
              {"rank", "host", "pid", "cuda_dev", "nvml_dev", "status", "collective_counts",
               "unresponsive", "considered_dead"},
              unknown);
  NameUnknown(from["status"], "ranks.status.",
              {"init_state", "async_error", "finalize_called", "destroy_flag", "abort_flag",
               "unresponsive", "considered_dead"},
              unknown);
}

}  // namespace

bool IsRasText(std::string_view beginning) {
  return beginning.starts_with("NCCL version ") &&
         beginning.find("\nCUDA runtime version ") != beginning.npos;
}

uint64_t RasMember::Total() const {
  uint64_t total = 0;
  for (const auto& [name, count] : counts) total += count;
  return total;
}

StatusOr<RasReport> ParseRasReport(std::string_view bytes) {
  if (IsRasText(bytes)) return ParseRasWords(bytes);
  size_t repaired = 0;
  StatusOr<PlainData> data = ReadReport(bytes, &repaired);
  GORDIAN_RETURN_IF_ERROR(data.status());
  const View root = data->root();
  const View comms = root["communicators"];
  if (root["nccl_version"].AsText().empty() || comms.kind() != PlainData::Kind::kList) {
    return Status::DataLoss("it has no nccl_version and communicators");
  }
  RasReport report;
  report.nccl_version = root["nccl_version"].AsText();
  report.time = root["timestamp"].AsText();
  report.repaired_commas = repaired;
  NameUnknown(root, "",
              {"nccl_version", "cuda_runtime_version", "cuda_driver_version", "timestamp",
               "communicators_count", "communicators", "ras"},
              &report.unknown);
  size_t members = 0;
  for (size_t c = 0; c < comms.size(); ++c) {
    const View from = comms[c];
    const std::string where = "communicator " + std::to_string(c);
    NameUnknown(from, "communicators.",
                {"hash", "secondary_hash", "size", "ranks_count", "missing_ranks_count", "ranks",
                 "missing_ranks"},
                &report.unknown);
    RasCommunicator comm;
    comm.key =
        std::string(from["hash"].AsText()) + "/" + std::string(from["secondary_hash"].AsText());
    const auto size = from["size"].AsInt();
    if (from["hash"].AsText().empty() || !size || *size <= 0 || *size > kMaxRank) {
      return Status::DataLoss(where + " has no hash and size");
    }
    comm.size = static_cast<int>(*size);
    for (const char* list : {"ranks", "missing_ranks"}) {
      const bool there = list[0] == 'r';
      for (size_t i = 0; i < from[list].size(); ++i) {
        if (++members > kMaxMembers) return Status::DataLoss("it has more than a million members");
        NameUnknownMember(from[list][i], &report.unknown);
        StatusOr<RasMember> member = there ? Member(from[list][i]) : Missing(from[list][i]);
        if (!member.ok()) {
          return Status::DataLoss(where + ", " + list + " " + std::to_string(i) + " " +
                                  member.status().message());
        }
        if (member->rank >= comm.size)
          return Status::DataLoss(where + " has a rank beyond its size");
        comm.members.push_back(std::move(*member));
      }
    }
    std::stable_sort(comm.members.begin(), comm.members.end(),
                     [](const RasMember& a, const RasMember& b) { return a.rank < b.rank; });
    for (size_t i = 1; i < comm.members.size(); ++i) {
      if (comm.members[i].rank == comm.members[i - 1].rank)
        return Status::DataLoss(where + " has a rank twice");
    }
    report.communicators.push_back(std::move(comm));
  }
  return report;
}

StatusOr<std::vector<RasReport>> ReadRasReports(const std::vector<std::string>& paths) {
  std::vector<RasReport> reports;
  for (const std::string& path : paths) {
    const StatusOr<std::string> bytes = ReadSource(path);
    GORDIAN_RETURN_IF_ERROR(bytes.status());
    StatusOr<RasReport> report = ParseRasReport(*bytes);
    if (!report.ok())
      return Status(report.status().code(),
                    path + " cannot be read as a report of NCCL RAS: " + report.status().message());
    report->path = path;
    reports.push_back(std::move(*report));
  }
  return reports;
}

}  // namespace gordian::importers
