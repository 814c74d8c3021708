#include "replayer/predict/readiness.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "replayer/record/buffers.h"
#include "replayer/reduce/model_run.h"

namespace gordian::replayer {
namespace {

constexpr char kOnItsWord[] =
    "the job says that these calls come in any order (GORDIAN_READINESS_ORDERED), and no run that "
    "hangs has shown it";
constexpr char kGoesOn[] =
    "by the model no rank hangs: NCCL adds up different buffers, and the job goes on with wrong "
    "data";
constexpr char kAlike[] =
    "the calls have one size: no rank hangs, and NCCL adds up different buffers if they change "
    "places";

// How bad it is that two calls change places, in rising order.
enum class Harm { kAlike, kGoesOn, kHangs };

class Swapper {
 public:
  Swapper(const RecordedOrders& orders, size_t max_pairs)
      : schedule_(orders.schedule), max_pairs_(max_pairs) {
    std::unordered_map<OpId, const Op*> ops;
    ForEachOp(schedule_, [&](size_t, size_t, const Op& op) { ops[op.id] = &op; });
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (const OpId id : orders.recorded[rank]) {
        const Op& op = *ops.at(id);
        if (!IsCollective(op.kind)) continue;
        std::vector<const Op*>& of = collectives_[{op.comm, rank}];
        numbers_[id] = of.size();
        of.push_back(&op);
      }
    }
  }

  std::optional<Prediction> Worst(const std::string& site) {
    worst_.reset();
    tried_.clear();
    alike_ = 0;
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (const ThreadProgram& thread : schedule_.ranks[rank].threads) {
        std::vector<const Op*> run, between;
        for (const Op& op : thread.ops) {
          if (!IsCollective(op.kind) || op.in_group || op.captured || !IsAt(op.site, site)) {
            between.push_back(&op);
            continue;
          }
          if (!run.empty() && !(OneRun(*run.back(), op) && OfLaunch(op, between))) {
            TryRun(rank, run);
            run.clear();
          }
          run.push_back(&op);
          between.clear();
        }
        TryRun(rank, run);
      }
    }
    if (worst_) worst_->second.alike = alike_ - 1;
    return worst_ ? std::optional(std::move(worst_->second)) : std::nullopt;
  }

 private:
  using Shape = std::tuple<uint64_t, uint8_t, uint8_t, int>;
  static Shape ShapeOf(const Op& op) {
    return {op.count, op.datatype, op.reduce_op, op.root_or_peer};
  }

  // What gordian calls the mismatch where it meets it. Of two calls alike it sees none.
  static std::string CheckOf(const Op& first, const Op& second) {
    if (first.datatype != second.datatype) return "mismatch-type";
    if (first.count != second.count) return "mismatch-count";
    if (first.root_or_peer != second.root_or_peer) return "mismatch-root";
    return first.reduce_op != second.reduce_op ? "mismatch-operator" : "";
  }

  static bool OneRun(const Op& before, const Op& op) {
    return before.comm == op.comm && before.stream == op.stream && before.kind == op.kind;
  }

  // True if the calls before `op` belong to it or to the one before: its stream waits for events that
  // were recorded for this, and the last call's end is recorded.
  static bool OfLaunch(const Op& op, const std::vector<const Op*>& between) {
    std::set<int> awaited;
    for (const Op* const other : between) {
      if (other->kind == OpKind::kStreamWaitEvent && other->stream == op.stream)
        awaited.insert(other->event);
    }
    return std::all_of(between.begin(), between.end(), [&](const Op* other) {
      if (other->kind == OpKind::kStreamWaitEvent) return other->stream == op.stream;
      return other->kind == OpKind::kEventRecord &&
             (other->stream == op.stream || awaited.contains(other->event));
    });
  }

  void TryRun(size_t rank, const std::vector<const Op*>& run) {
    for (size_t i = 0; i < run.size(); ++i) {
      for (size_t j = i + 1; j < run.size(); ++j) {
        const std::pair<Shape, Shape> shapes =
            std::minmax({ShapeOf(*run[i]), ShapeOf(*run[j])});  // copies
        std::set<std::pair<Shape, Shape>>& tried = tried_[run[i]->comm];
        if (tried.size() >= max_pairs_ || !tried.insert(shapes).second) continue;
        Try(rank, *run[i], *run[j]);
      }
    }
  }

  // At this rank `second` comes first, and meets what the others call in the place of `first`.
  void Try(size_t rank, const Op& first, const Op& second) {
    const bool differ = ShapeOf(first) != ShapeOf(second);
    std::optional<Schedule> witness = Witness(rank, first, second);
    if (!witness) return;
    ++alike_;
    ModelRun run;
    if (differ) run = RunModel(*witness);
    const Harm harm = !differ ? Harm::kAlike : run.hangs ? Harm::kHangs : Harm::kGoesOn;
    if (worst_ && worst_->first >= harm) return;
    Prediction found{.freedom = Freedom::kReadinessOrdered};
    found.sites = {std::string(Name(first.kind)) + " " + first.site + ", in another order"};
    found.cycle = {second.id, Other(*witness, first, second).id};
    found.orders = {{.rank = PlaceOf(*witness, schedule_.ranks[rank].rank),
                     .first = second.id,
                     .second = first.id,
                     .as_recorded = false}};
    found.doubt = harm == Harm::kHangs ? kOnItsWord : harm == Harm::kGoesOn ? kGoesOn : kAlike;
    found.run_decides = harm == Harm::kHangs;
    Origin& origin = witness->origin;
    origin.signature = run.signature;
    origin.check = CheckOf(first, second);
    origin.confidence.clear();  // that of the recorded run
    origin.summary = "predicted: " + (run.hangs ? run.summary : found.doubt);
    origin.ranks = schedule_.ranks.size();
    origin.operations = CountOperations(schedule_);
    found.witness = *std::move(witness);
    worst_.emplace(harm, std::move(found));
  }

  // What another rank calls in the place of `first`.
  static const Op& Other(const Schedule& witness, const Op& first, const Op& second) {
    for (const RankProgram& rank : witness.ranks) {
      const std::vector<Op>& ops = rank.threads.front().ops;
      if (ops.front().id != second.id && ops.front().id != first.id) return ops.front();
    }
    return witness.ranks.front().threads.front().ops.front();
  }

  static size_t PlaceOf(const Schedule& witness, int rank) {
    size_t place = 0;
    while (witness.ranks[place].rank != rank) ++place;
    return place;
  }

  // The two calls alone, of all members. What came before them is as recorded, and has ended; what
  // comes after them cannot help a rank that hangs in them.
  std::optional<Schedule> Witness(size_t rank, const Op& first, const Op& second) const {
    const Communicator& comm = schedule_.comms[static_cast<size_t>(first.comm)];
    if (comm.members.size() < 2) return std::nullopt;
    Schedule witness;
    witness.environment = schedule_.environment;
    witness.origin = schedule_.origin;
    Communicator& only = witness.comms.emplace_back(comm);
    only.parent = -1;
    only.ready = true;
    only.members.clear();
    for (const int member : comm.members) {
      if (member < 0) return std::nullopt;
      const auto place = static_cast<size_t>(member);
      const RankProgram& of = schedule_.ranks[place];
      std::vector<Op> calls;
      for (const Op* const mine : {&first, &second}) {
        const auto all = collectives_.find({first.comm, place});
        const size_t number = numbers_.at(mine->id);
        if (all == collectives_.end() || all->second.size() <= number) return std::nullopt;
        const Op& op = *all->second[number];
        if (op.in_group || op.captured) return std::nullopt;
        calls.push_back(op);
      }
      if (place == rank) std::swap(calls[0], calls[1]);
      only.members.push_back(static_cast<int>(witness.ranks.size()));
      RankProgram& program = witness.ranks.emplace_back();
      program.rank = of.rank;
      program.device = of.device;
      program.pid = of.pid;
      for (Op& op : calls) {
        const Stream& stream = of.streams[static_cast<size_t>(op.stream)];
        const auto known = std::find(program.streams.begin(), program.streams.end(), stream);
        op.stream = static_cast<int>(known - program.streams.begin());
        if (known == program.streams.end()) program.streams.push_back(stream);
        op.comm = 0;
        op.gates.clear();
      }
      program.threads.push_back({std::move(calls)});
    }
    return witness;
  }

  const Schedule& schedule_;
  const size_t max_pairs_;
  // The calls of each communicator and rank in the recorded order, and each call's place there.
  std::map<std::pair<int, size_t>, std::vector<const Op*>> collectives_;
  std::unordered_map<OpId, size_t> numbers_;
  std::map<int, std::set<std::pair<Shape, Shape>>> tried_;  // by communicator
  std::optional<std::pair<Harm, Prediction>> worst_;
  size_t alike_ = 0;  // pairs of shapes that may change places
};

}  // namespace

bool IsAt(const std::string& text, const std::string& site) {
  if (!text.starts_with(site)) return false;
  return text.size() == site.size() || text[site.size()] == ' ';
}

std::vector<Prediction> PredictReadiness(const RecordedOrders& orders, size_t max_pairs) {
  std::vector<Prediction> found;
  if (orders.ready_sites.empty()) return found;
  Swapper swapper(orders, max_pairs);
  for (const std::string& site : orders.ready_sites) {
    if (std::optional<Prediction> worst = swapper.Worst(site)) found.push_back(*std::move(worst));
  }
  return found;
}

}  // namespace gordian::replayer
