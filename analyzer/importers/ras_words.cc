#include "analyzer/importers/ras_words.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gordian::importers {
namespace {

constexpr int64_t kMaxSize = 1 << 20;  // members of a communicator
constexpr size_t kMostUnknown = 4;     // lines that are named

// Takes words and numbers off the beginning of a line.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) {}

  bool Take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<int64_t> Number(int base = 10) {
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data(), text_.data() + text_.size(), value, base);
    if (error != std::errc() || (base == 10 && value > INT64_MAX)) return std::nullopt;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return static_cast<int64_t>(value);
  }
  std::string_view Word() {
    const std::string_view word = text_.substr(0, text_.find(' '));
    text_.remove_prefix(word.size());
    return word;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

// A line "Rank 3 ...".
struct RankLine {
  int rank = -1;
  std::string process;  // as RasMember::process
  std::string status;
  std::optional<int64_t> count;
  bool error = false;
};

// "[ -- ]GPU 0 (NVML 1) managed by process 7 on node 10.0.0.1", "[process information not found]".
bool TakeProcess(Line line, RankLine* out) {
  if (line.rest() == "[process information not found]") return true;
  if (!line.Take("GPU ")) return false;
  const auto device = line.Number();
  constexpr std::string_view kBy = "managed by process ";
  const size_t by = line.rest().find(kBy);
  if (!device || by == std::string_view::npos) return false;
  Line process(line.rest().substr(by + kBy.size()));
  const auto pid = process.Number();
  if (!pid || !process.Take(" on node ") || process.rest().empty()) return false;
  out->process =
      std::string(process.rest()) + ":" + std::to_string(*pid) + ":" + std::to_string(*device);
  return true;
}

std::optional<RankLine> RankOf(std::string_view text) {
  Line line(text);
  if (!line.Take("  Rank ")) return std::nullopt;
  RankLine out;
  const auto rank = line.Number();
  if (!rank || *rank > kMaxSize) return std::nullopt;
  out.rank = static_cast<int>(*rank);
  if (line.Take(" has status ")) {
    out.status = line.Word();
  } else if (line.Take(" has launched up to operation ")) {
    out.count = line.Number();
    if (!out.count) return std::nullopt;
  } else if (line.Take(" has not launched any operations")) {
    out.count = 0;
  } else if (line.Take(" reported ")) {
    const size_t end = line.rest().find(" -- ");
    if (end == std::string_view::npos) return std::nullopt;
    out.error = true;
    line = Line(line.rest().substr(end));
  }
  if (line.rest().empty()) return out;
  if (!line.Take(" -- ") || !TakeProcess(line, &out)) return std::nullopt;
  return out;
}

// Ranks of a communicator that are alike: "3 ranks have launched up to operation 9".
struct Alike {
  size_t count = 0;
  std::string status;
  std::optional<int64_t> launched;
  std::vector<int> listed;
};

std::optional<Alike> AlikeOf(std::string_view text) {
  Line line(text);
  Alike out;
  if (!line.Take("  ")) return std::nullopt;
  const auto count = line.Number();
  if (!count || *count <= 0 || *count > kMaxSize) return std::nullopt;
  out.count = static_cast<size_t>(*count);
  if (line.Take(" ranks have status ")) {
    out.status = line.rest();
  } else if (line.Take(" ranks have launched up to operation ")) {
    out.launched = line.Number();
    if (!out.launched) return std::nullopt;
  } else if (line.Take(" ranks have not launched any operations")) {
    out.launched = 0;
  } else {
    return std::nullopt;
  }
  return out;
}

struct Communicator {
  int size = 0;
  std::map<int, RasMember> members;
  std::set<int> missing;
  std::map<std::string, std::vector<Alike>> counts;  // by function
  std::vector<Alike> statuses;
};

class Words {
 public:
  explicit Words(std::string_view bytes) : rest_(bytes) {}

  StatusOr<RasReport> Read() {
    Line first(Next());
    first.Take("NCCL version ");
    report_.nccl_version = first.Word();
    report_.words = true;
    while (!rest_.empty()) {
      if (const Status status = Take(Next()); !status.ok()) return status;
    }
    if (!warnings_)
      return Status::DataLoss("the report in words ends before its section \"Warnings\"");
    int64_t members = 0;
    for (const auto& [hash, comm] : comms_) members += comm.size;
    if (members > kMaxSize) return Status::DataLoss("it has more than a million members");
    for (auto& [hash, comm] : comms_) Settle(hash, &comm);
    return std::move(report_);
  }

 private:
  enum class Block { kOther, kDead, kIncomplete, kMissing, kError, kMismatch };

  std::string_view Next() {
    const size_t end = rest_.find('\n');
    std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  Status Take(std::string_view line) {
    if (line.empty()) {
      // Behind each function of a mismatch, too.
      if (block_ != Block::kMismatch) block_ = Block::kOther;
      return Status::Ok();
    }
    if (line.starts_with("Group     Comms")) {
      table_ = true;
      Next();  // the heading's second line
      return Status::Ok();
    }
    if (line == "Errors" || line == "Warnings") {
      table_ = false;
      block_ = Block::kOther;
      warnings_ = warnings_ || line == "Warnings";
      return Status::Ok();
    }
    if (table_) return TakeRow(line);
    if (line.starts_with('#')) return TakeHead(line);
    if (line == "DEAD" || line == "INCOMPLETE") {
      block_ = line == "DEAD" ? Block::kDead : Block::kMissing;
      return Status::Ok();
    }
    TakeDetail(line);
    return Status::Ok();
  }

  // Group, communicators in it, nodes, ranks a node, ranks a communicator, ranks, status, errors.
  Status TakeRow(std::string_view line) {
    std::vector<std::string_view> cells;
    for (size_t at = line.find_first_not_of(' '); at != line.npos;
         at = line.find_first_not_of(' ', at)) {
      const size_t end = std::min(line.find(' ', at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = end;
    }
    if (cells.size() != 8) return Status::DataLoss("a row of the table of communicators is cut");
    const auto group = Line(cells[0]).Number(), size = Line(cells[4]).Number();
    if (!group || !size || *size <= 0 || *size > kMaxSize)
      return Status::DataLoss("a row of the table of communicators has no group and size");
    sizes_[*group] = static_cast<int>(*size);
    return Status::Ok();
  }

  // "#0-1 (0123456789abcdef) MISMATCH"
  Status TakeHead(std::string_view text) {
    Line line(text);
    line.Take("#");
    const auto group = line.Number();
    if (!group || !line.Take("-") || !line.Number() || !line.Take(" (")) return Malformed(text);
    const std::string_view hash = line.rest().substr(0, line.rest().find(')'));
    if (!line.Number(16) || !line.Take(") ")) return Malformed(text);
    const auto size = sizes_.find(*group);
    if (size == sizes_.end())
      return Status::DataLoss("a communicator is of a group that the table does not have");
    comm_ = &comms_[std::string(text.substr(0, text.find(' '))) + " 0x" + std::string(hash)];
    comm_->size = size->second;
    function_.clear();
    alike_ = nullptr;
    block_ = line.rest() == "INCOMPLETE" ? Block::kIncomplete
             : line.rest() == "ERROR"    ? Block::kError
             : line.rest() == "MISMATCH" ? Block::kMismatch
                                         : Block::kOther;
    if (block_ == Block::kOther) Unknown(text);
    return Status::Ok();
  }

  static Status Malformed(std::string_view line) {
    return Status::DataLoss("it has the line \"" + std::string(line.substr(0, 80)) + "\"");
  }

  void Unknown(std::string_view line) {
    if (report_.unknown.size() < kMostUnknown)
      report_.unknown.insert("\"" + std::string(line.substr(0, 80)) + "\"");
  }

  void TakeDetail(std::string_view line) {
    switch (block_) {
      case Block::kOther:
      case Block::kMissing:
        return;
      case Block::kDead:
        return TakeDead(line);
      case Block::kIncomplete:
      case Block::kError:
      case Block::kMismatch:
        break;
    }
    if (const auto rank = RankOf(line)) return TakeRank(*rank);
    if (block_ == Block::kIncomplete) return TakeMissing(line);
    if (block_ == Block::kError) return;  // how many there are
    if (line == "  Communicator ranks have different status") {
      function_ = "status";
      return;
    }
    Line heading(line);
    if (heading.Take("  Communicator ranks have different ")) {
      function_ = heading.Word();
      if (function_ == "collective") function_ = "Operation";  // 2.24: of all functions
      alike_ = nullptr;
      return;
    }
    if (Line list(line); list.Take("  The unknown ranks: ")) {  // 2.24
      if (alike_ != nullptr) alike_->listed = RanksIn(list);
      return;
    }
    if (auto alike = AlikeOf(line)) {
      std::vector<Alike>& of = alike->launched ? comm_->counts[function_] : comm_->statuses;
      of.push_back(std::move(*alike));
      alike_ = &of.back();
      return;
    }
    Unknown(line);
  }

  // "  Process 7 on node 10.0.0.1 managing GPU 0"
  void TakeDead(std::string_view text) {
    Line line(text);
    if (!line.Take("  Process ")) return;
    const auto pid = line.Number();
    if (!pid || !line.Take(" on node ")) return;
    dead_.insert(std::string(line.Word()) + ":" + std::to_string(*pid) + ":");
  }

  // 2.24 lists the missing ranks: "  The missing ranks: 1,3".
  void TakeMissing(std::string_view text) {
    Line line(text);
    if (!line.Take("  The missing rank")) return;
    line.Take("s");
    if (!line.Take(": ")) return;
    for (const int rank : RanksIn(line)) comm_->missing.insert(rank);
  }

  // "1,3"
  std::vector<int> RanksIn(Line line) const {
    std::vector<int> ranks;
    while (const auto rank = line.Number()) {
      if (*rank < comm_->size) ranks.push_back(static_cast<int>(*rank));
      if (!line.Take(",")) break;
    }
    return ranks;
  }

  void TakeRank(const RankLine& rank) {
    if (rank.rank >= comm_->size) return;
    RasMember& member = comm_->members[rank.rank];
    member.rank = rank.rank;
    if (!rank.process.empty()) member.process = rank.process;
    if (rank.error) member.async_error = 1;
    if (block_ == Block::kIncomplete) {
      comm_->missing.insert(rank.rank);
    } else if (rank.count) {
      comm_->counts[function_].push_back({1, "", rank.count, {rank.rank}});
      alike_ = nullptr;
    } else if (!rank.status.empty()) {
      comm_->statuses.push_back({1, rank.status, std::nullopt, {rank.rank}});
      alike_ = nullptr;
    } else if (alike_ != nullptr && block_ == Block::kMismatch) {
      alike_->listed.push_back(rank.rank);
    }
  }

  // Fills in the one set of which the report gives the size alone, with the ranks that no other set
  // lists. False: several sets are such, or the sizes do not fit.
  static bool ListRest(const std::set<int>& all, std::vector<Alike>* sets) {
    std::set<int> rest = all;
    Alike* unlisted = nullptr;
    for (Alike& set : *sets) {
      if (set.listed.size() == set.count) {
        for (const int rank : set.listed) rest.erase(rank);
      } else if (unlisted != nullptr) {
        return false;
      } else {
        unlisted = &set;
      }
    }
    if (unlisted == nullptr) return true;
    if (rest.size() != unlisted->count) return false;
    unlisted->listed.assign(rest.begin(), rest.end());
    return true;
  }

  bool IsDead(const std::string& process) const {
    return !process.empty() && dead_.count(process.substr(0, process.rfind(':') + 1)) > 0;
  }

  void Settle(const std::string& key, Communicator* from) {
    RasCommunicator comm;
    const size_t space = key.find(' ');
    comm.key = key.substr(space + 1) + "/" + key.substr(0, space);
    comm.size = from->size;
    std::set<int> answered, absent, left;
    for (int rank = 0; rank < from->size; ++rank) {
      if (from->missing.count(rank) == 0) answered.insert(rank);
    }
    if (ListRest(answered, &from->statuses)) {
      for (const Alike& alike : from->statuses) {
        for (const int rank : alike.listed) {
          // No member of it any more; 2.24 calls that unknown.
          if (alike.status == "NOCOMM" || alike.status == "UNKNOWN") left.insert(rank);
          RasMember& member = from->members[rank];
          member.aborted = member.aborted || alike.status == "ABORT";
          member.left = member.left || alike.status == "FINALIZE";
        }
      }
    } else {
      report_.unknown.insert("which ranks of " + comm.key.substr(0, comm.key.find('/')) +
                             " have which status");
    }
    for (const int rank : left) answered.erase(rank);
    for (auto& [function, sets] : from->counts) {
      if (!ListRest(answered, &sets)) {
        for (const int rank : answered) absent.insert(rank);
      }
      for (const Alike& alike : sets) {
        for (const int rank : alike.listed) {
          absent.erase(rank);
          from->members[rank].counts[function] = static_cast<uint64_t>(*alike.launched);
        }
      }
    }
    for (int rank = 0; rank < from->size; ++rank) {
      RasMember& member = from->members[rank];
      if (absent.count(rank) > 0 || left.count(rank) > 0) continue;
      member.rank = rank;
      member.answered = from->missing.count(rank) == 0;
      // 2.24 does not say of which process a missing rank is.
      member.dead =
          !member.answered &&
          (member.process.empty() ? dead_.size() == from->missing.size() : IsDead(member.process));
      comm.members.push_back(member);
    }
    report_.communicators.push_back(std::move(comm));
  }

  std::string_view rest_;
  RasReport report_;
  std::map<int64_t, int> sizes_;  // of the communicators of a group, by its number
  std::map<std::string, Communicator> comms_;
  std::set<std::string> dead_;  // "host:pid:"
  Communicator* comm_ = nullptr;
  std::string function_;
  Alike* alike_ = nullptr;
  Block block_ = Block::kOther;
  bool table_ = false, warnings_ = false;
};

}  // namespace

StatusOr<RasReport> ParseRasWords(std::string_view bytes) { return Words(bytes).Read(); }

}  // namespace gordian::importers
