#include "analyzer/importers/inspector.h"

#include <algorithm>
#include <set>

#include "analyzer/importers/plain_data.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::importers {
namespace {

using View = PlainData::View;

constexpr size_t kMaxLine = 1u << 20;
constexpr size_t kMostDifferent = 16;
constexpr int64_t kMaxRank = 1 << 24;
constexpr size_t kMostOperations = 16;
constexpr size_t kMostUnknown = 8;

// Functions for which NCCL requires equal sizes at every member.
bool EqualSizes(const std::string& function) {
  static const std::set<std::string> kEqual = {"AllReduce", "Broadcast", "Reduce", "AllGather",
                                               "ReduceScatter"};
  return kEqual.count(function) > 0;
}

bool IsKnownVersion(std::string_view version) {
  return version == "v4.0" || version == "v4.1" || version == "v4.2";
}

// What a line holds beside header and metadata; "": nothing.
std::string OtherKind(const View& root) {
  for (size_t i = 0; i < root.size(); ++i) {
    const std::string name = root.Item(i).first;
    if (name != "header" && name != "metadata") return name;
  }
  return "";
}

}  // namespace

Status InspectorJob::Add(std::string_view bytes) {
  size_t number = 0;
  while (!bytes.empty()) {
    ++number;
    const size_t end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end);
    const bool last = end == std::string_view::npos;
    bytes = last ? std::string_view() : bytes.substr(end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (line.size() > kMaxLine)
      return Status::DataLoss("line " + std::to_string(number) + " has more than 1 MiB");
    const Status status = AddLine(line);
    if (status.ok()) continue;
    if (last && number > 1) {
      ++cut_;
      return Status::Ok();
    }
    return Status(status.code(), "line " + std::to_string(number) + ": " + status.message());
  }
  return Status::Ok();
}

Status InspectorJob::AddLine(std::string_view line) {
  StatusOr<PlainData> data = ReadJson(line);
  GORDIAN_RETURN_IF_ERROR(data.status());
  const View root = data->root(), header = root["header"];
  const std::string id(header["id"].AsText());
  const auto rank = header["rank"].AsInt(), size = header["n_ranks"].AsInt();
  if (id.empty() || !rank || !size || *size <= 0 || *size > kMaxRank || *rank < 0 ||
      *rank >= *size) {
    return Status::DataLoss("it has no header with id, rank and n_ranks");
  }
  Communicator& comm = comms_[id];
  if (comm.size != 0 && comm.size != *size)
    return Status::DataLoss("communicator " + id + " has two sizes");
  comm.size = static_cast<int>(*size);
  const std::string_view name = header["comm_name"].AsText();
  if (!name.empty() && name != "unknown") comm.name = name;
  const int member = static_cast<int>(*rank);
  auto& last = comm.last[member];
  const View stats = root["dump_stats"];
  if (!stats.is_null()) {
    for (const char* key : {"coll_dropped_since_last_dump", "p2p_dropped_since_last_dump"}) {
      dropped_ += static_cast<uint64_t>(std::max<int64_t>(stats[key].AsInt().value_or(0), 0));
    }
    return Status::Ok();
  }
  const std::string version(root["metadata"]["inspector_output_format_version"].AsText());
  if (!version.empty() && !IsKnownVersion(version) && unknown_.size() < kMostUnknown)
    unknown_.insert("version " + version + " of NCCL Inspector's format");
  const View coll = root["coll_perf"];
  if (coll.is_null()) {
    if (root["p2p_perf"].is_null() && root["proxy_op"].is_null() && root["proxy_step"].is_null()) {
      const std::string other = OtherKind(root);
      if (other.empty() || IsKnownVersion(version))
        return Status::DataLoss("it has neither coll_perf nor p2p_perf nor dump_stats");
      if (unknown_.size() < kMostUnknown) unknown_.insert("lines of " + other);
      return Status::Ok();
    }
    ++records_;
    return Status::Ok();
  }
  const std::string function(coll["coll"].AsText());
  const auto sequence = coll["coll_sn"].AsInt(), bytes = coll["coll_msg_size_bytes"].AsInt();
  if (function.empty() || !sequence || *sequence < 0 || !bytes || *bytes < 0) {
    return Status::DataLoss("coll_perf has no coll, coll_sn and coll_msg_size_bytes");
  }
  ++records_;
  const auto number = static_cast<uint64_t>(*sequence);
  auto [highest, added] = last.try_emplace(function, number);
  if (!added) highest->second = std::max(highest->second, number);
  if (!EqualSizes(function)) return Status::Ok();
  const auto key = std::tuple(id, function, number);
  Sizes& sizes = open_[key];
  sizes.by_rank[member] = static_cast<uint64_t>(*bytes);
  if (static_cast<int>(sizes.by_rank.size()) == comm.size) {
    const uint64_t first = sizes.by_rank.begin()->second;
    const bool equal = std::all_of(sizes.by_rank.begin(), sizes.by_rank.end(),
                                   [&](const auto& of) { return of.second == first; });
    if (!equal && different_.size() < kMostDifferent)
      different_.push_back({id, function, number, sizes.by_rank});
    open_.erase(key);
  } else if (open_.size() > kMostHeld) {
    open_.erase(open_.begin());
    ++let_go_;
  }
  return Status::Ok();
}

model::Verdict InspectorJob::Decide() const {
  std::set<int> seen;
  int expected = 0;
  for (const auto& [id, comm] : comms_) expected = std::max(expected, comm.size);
  for (const auto& [id, comm] : comms_) {
    if (comm.size != expected) continue;
    for (const auto& [rank, last] : comm.last) seen.insert(rank);
  }
  const auto name = [&](const std::string& id) {
    const std::string& given = comms_.at(id).name;
    return given.empty() ? "communicator " + id : given;
  };
  const auto make = [&](const char* id) {
    model::Finding finding = model::MakeFinding(id, model::Confidence::kSuspected);
    finding.evidence.ranks_seen = static_cast<int>(seen.size());
    finding.evidence.ranks_expected = expected;
    finding.evidence.records = records_;
    finding.evidence.records_lost = dropped_ + let_go_;
    finding.evidence.nccl_calls = records_;
    auto& unseen = finding.evidence.not_visible;
    unseen.push_back(
        "operations that have not completed: NCCL Inspector writes completed ones only, and by "
        "default none below 8 KiB");
    if (static_cast<int>(seen.size()) < expected) {
      unseen.push_back(std::to_string(expected - static_cast<int>(seen.size())) + " of " +
                       std::to_string(expected) + " ranks wrote no line");
    }
    for (const std::string& what : unknown_)
      unseen.push_back(what + ", which gordian does not know");
    if (cut_ > 0)
      unseen.push_back("the last line of " + std::to_string(cut_) +
                       (cut_ == 1 ? " file" : " files"));
    return finding;
  };
  model::Verdict verdict;
  for (const Different& different : different_) {
    std::map<uint64_t, std::vector<int>> by_size;
    for (const auto& [rank, bytes] : different.by_rank) by_size[bytes].push_back(rank);
    size_t most = 0, same = 0;
    for (const auto& [bytes, who] : by_size) {
      same = who.size() == most ? same + 1 : who.size() > most ? 1 : same;
      most = std::max(most, who.size());
    }
    model::Finding finding = make("mismatch-count");
    std::string text;
    for (const auto& [bytes, who] : by_size) {
      text += (text.empty() ? "" : "; ") + model::RankList(who) + " passed " +
              std::to_string(bytes) + " bytes";
      auto& side = same > 1 || who.size() < most ? finding.culprit_ranks : finding.victim_ranks;
      side.insert(side.end(), who.begin(), who.end());
    }
    std::sort(finding.culprit_ranks.begin(), finding.culprit_ranks.end());
    finding.summary = "The members of " + different.function + " #" +
                      std::to_string(different.sequence) + " on " + name(different.comm) +
                      " disagree: " + text + ".";
    finding.evidence.assumes.push_back("rank numbers are those of the communicator");
    verdict.findings.push_back(std::move(finding));
  }
  if (!verdict.findings.empty()) {
    verdict.main = std::move(verdict.findings.front());
    verdict.findings.erase(verdict.findings.begin());
    return verdict;
  }
  verdict.main = make("evidence-missing");
  std::string behind;
  for (const auto& [id, comm] : comms_) {
    std::map<std::string, uint64_t> highest;
    for (const auto& [rank, last] : comm.last) {
      for (const auto& [function, number] : last)
        highest[function] = std::max(highest[function], number);
    }
    for (const auto& [function, number] : highest) {
      model::StuckOperation operation;
      operation.op = function;
      operation.comm_name = name(id);
      operation.sequence = static_cast<int64_t>(number);
      std::vector<int> others;
      for (const auto& [rank, last] : comm.last) {
        const auto of = last.find(function);
        if (of == last.end() || of->second != number) {
          others.push_back(rank);
          continue;
        }
        model::OperationMember shown;
        shown.rank = rank;
        shown.state = model::PartState::kDone;
        operation.members.push_back(std::move(shown));
      }
      if (others.empty()) continue;
      if (behind.empty()) {
        behind = "No line of " + model::RankList(others) + " reports " + function + " #" +
                 std::to_string(number) + " on " + name(id) +
                 ", which other ranks have completed: its line may come later.";
      }
      if (verdict.main.operations.size() < kMostOperations)
        verdict.main.operations.push_back(std::move(operation));
    }
  }
  verdict.main.summary = behind.empty() ? "All ranks have completed the same last operations: an "
                                          "operation that hangs writes no line."
                                        : behind;
  return verdict;
}

}  // namespace gordian::importers
