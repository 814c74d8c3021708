#include "replayer/write/cxx_bench_tables.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "replayer/record/buffers.h"
#include "replayer/write/cxx_rank_writer.h"

namespace gordian::replayer {
namespace {

// The bytes that NCCL's own benchmarks report: those of the larger buffer.
uint64_t WholeBytes(const Schedule& schedule, const Op& op) {
  return model::LargestBuffer(CallOf(op.kind), Bytes(op),
                              schedule.comms[static_cast<size_t>(op.comm)].members.size());
}

class Tables {
 public:
  explicit Tables(const Schedule& schedule) : schedule_(schedule) {}

  std::string Checks() {
    ForEachOp(schedule_, [&](size_t rank, size_t, const Op& op) {
      if (!IsOperation(op.kind) || op.count == 0) return;
      int from = op.root_or_peer, to = -1;
      if (IsTransfer(op.kind)) {
        const int me =
            MemberOf(schedule_.comms[static_cast<size_t>(op.comm)], static_cast<int>(rank));
        const model::Ends ends = model::EndsOf(RoleOf(op, me));
        from = ends.source;
        to = ends.destination;
        if (from == to) return;  // with itself
      }
      const std::string kind = IsTransfer(op.kind) ? "Transfer" : Name(op.kind);
      const std::string row = "    {Kind::k" + kind + ", " + std::to_string(op.comm) + ", " +
                              std::to_string(op.count) + ", " + CxxTypeOf(op) + ", " +
                              (Reduces(op.kind) ? CxxOperatorOf(op) : "ncclSum") + ", " +
                              std::to_string(from) + ", " + std::to_string(to) + "},\n";
      if (std::find(checks_.begin(), checks_.end(), row) == checks_.end()) checks_.push_back(row);
    });
    std::string text;
    for (const std::string& row : checks_) text += row;
    return text;
  }

  // One row for equal calls of all ranks.
  int Row(const Op& op) {
    const auto [found, added] = rows_.try_emplace(Describe(op), order_.size());
    if (added) order_.push_back(found->first);
    return static_cast<int>(found->second);
  }

  std::string Rows() const {
    std::string text;
    for (const auto& [what, bytes] : order_)
      text += "    {" + CxxQuoted(what) + ", " + std::to_string(bytes) + "},\n";
    return text;
  }

  size_t check_count() const { return checks_.size(); }
  size_t row_count() const { return order_.size(); }

 private:
  std::string Of(const Op& op) const {
    return std::string(Name(op.kind)) + " on " + schedule_.comms[static_cast<size_t>(op.comm)].name;
  }

  // A call's name and bytes; for a group, those of all operations after its start.
  std::pair<std::string, uint64_t> Describe(const Op& op) const {
    if (IsOperation(op.kind)) return {Of(op), WholeBytes(schedule_, op)};
    if (op.kind == OpKind::kGraphLaunch) return {"graph g" + std::to_string(op.graph + 1), 0};
    std::map<std::string, size_t> members;
    uint64_t bytes = 0;
    for (const Op* member = &op + 1; member->kind != OpKind::kGroupEnd; ++member) {
      if (!IsOperation(member->kind)) continue;
      ++members[Of(*member)];
      bytes += WholeBytes(schedule_, *member);
    }
    std::string what = "group:";
    for (const auto& [name, count] : members) {
      what +=
          (what.back() == ':' ? " " : ", ") + (count > 1 ? std::to_string(count) + " " : "") + name;
    }
    return {what, bytes};
  }

  const Schedule& schedule_;
  std::vector<std::string> checks_;
  std::map<std::pair<std::string, uint64_t>, size_t> rows_;
  std::vector<std::pair<std::string, uint64_t>> order_;
};

}  // namespace

std::string CxxBenchTables(const Schedule& schedule,
                           const std::vector<std::vector<const Op*>>& timed) {
  Tables tables(schedule);
  const std::string checks = tables.Checks();
  std::string calls, lists;
  for (size_t rank = 0; rank < timed.size(); ++rank) {
    calls += "constexpr int kTimed" + std::to_string(rank) + "[] = {";
    for (const Op* op : timed[rank]) calls += std::to_string(tables.Row(*op)) + ", ";
    calls += "-1};\n";
    lists += (rank == 0 ? "kTimed" : ", kTimed") + std::to_string(rank);
  }
  std::string text = R"text(
enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kReduce, kAllToAll, kGather, kScatter, kTransfer };

// What is checked, each once. root: who sends, of a transfer.
struct Check {
  Kind kind;
  int comm;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root, to;
};
)text";
  text += "constexpr int kChecks = " + std::to_string(tables.check_count()) + ";\n";
  text += "constexpr Check kCheckList[kChecks + 1] = {\n" + checks + "    {}};\n";
  text += R"text(
// What is timed, and which of these the calls of each rank are.
struct Row {
  const char* what;
  size_t bytes;
};
)text";
  text += "constexpr int kRows = " + std::to_string(tables.row_count()) + ";\n";
  text += "constexpr Row kRowList[kRows + 1] = {\n" + tables.Rows() + "    {}};\n" + calls;
  return text + "constexpr const int* kTimed[kRanks] = {" + lists + "};\n";
}

}  // namespace gordian::replayer
