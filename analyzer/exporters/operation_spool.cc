#include "analyzer/exporters/operation_spool.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gordian::exporters {
namespace {

constexpr size_t kMostPending = 1 << 16;  // operations in memory
constexpr uint32_t kBlock = 128;          // operations that are read at once

}  // namespace

// One run, as it is read.
class OperationSpool::Cursor {
 public:
  Cursor(ScratchFile* file, const Run& run) : file_(file), run_(run) {}

  const Packed& Top() const { return block_[place_]; }
  // Goes on to the next operation, at first to the first. False: there is none, or an error.
  bool Next(Status* status) {
    if (place_ + 1 < block_.size()) {
      ++place_;
      return true;
    }
    const uint32_t count = std::min(kBlock, run_.count - taken_);
    block_.resize(count);
    place_ = 0;
    if (count == 0) return false;
    *status = file_->Read(run_.at + taken_ * sizeof(Packed), block_.data(), count * sizeof(Packed));
    taken_ += count;
    return status->ok();
  }

 private:
  ScratchFile* file_;
  Run run_;
  uint32_t taken_ = 0;
  std::vector<Packed> block_;
  size_t place_ = 0;
};

OperationSpool::Packed OperationSpool::Pack(const LoggedOperation& operation) {
  static_assert(std::is_trivially_copyable_v<Packed>);
  return {.sequence = operation.sequence,
          .count = operation.count,
          .order = operation.order,
          .called_ns = operation.called_ns,
          .done_ns = operation.done_ns,
          .site_address = operation.site_address,
          .group = operation.group,
          .member = operation.member,
          .root_or_peer = operation.root_or_peer,
          .stream = operation.stream,
          .thread = operation.thread,
          .batch = operation.batch,
          .call = static_cast<uint8_t>(operation.call),
          .datatype = operation.datatype,
          .reduce_op = operation.reduce_op,
          .progress = static_cast<uint8_t>(operation.progress)};
}

LoggedOperation OperationSpool::Unpack(model::ProcessId process, const Packed& packed) {
  LoggedOperation operation;
  operation.call = static_cast<model::Call>(packed.call);
  operation.group = packed.group;
  operation.member = packed.member;
  operation.root_or_peer = packed.root_or_peer;
  operation.sequence = packed.sequence;
  operation.count = packed.count;
  operation.datatype = packed.datatype;
  operation.reduce_op = packed.reduce_op;
  operation.stream = packed.stream;
  operation.thread = packed.thread;
  operation.batch = packed.batch;
  operation.process = process;
  operation.order = packed.order;
  operation.called_ns = packed.called_ns;
  operation.done_ns = packed.done_ns;
  operation.progress = static_cast<Progress>(packed.progress);
  operation.site_address = packed.site_address;
  return operation;
}

void OperationSpool::Add(const LoggedOperation& operation) {
  Process& process = processes_[operation.process];
  process.pending.push_back(Pack(operation));
  ++process.of_member[{operation.group, operation.member}];
  if (++pending_ >= kMostPending) WritePending();
}

void OperationSpool::WritePending() {
  for (auto& [number, process] : processes_) {
    std::vector<Packed>& pending = process.pending;
    if (pending.empty()) continue;
    std::stable_sort(pending.begin(), pending.end(),
                     [](const Packed& a, const Packed& b) { return a.order < b.order; });
    process.runs.push_back({.first = pending.front().order,
                            .at = written_,
                            .count = static_cast<uint32_t>(pending.size())});
    const std::string_view bytes(reinterpret_cast<const char*>(pending.data()),
                                 pending.size() * sizeof(Packed));
    file_.Append(bytes);
    written_ += bytes.size();
    pending.clear();
  }
  pending_ = 0;
}

std::set<int> OperationSpool::Ranks(const RankOf& rank_of) const {
  std::set<int> ranks;
  for (const auto& [number, process] : processes_) {
    for (const auto& [key, count] : process.of_member) ranks.insert(rank_of(key.first, key.second));
  }
  return ranks;
}

// Runs overlap little, as operations become known about as they were called: few are read at once.
Status OperationSpool::Merge(Process* process, const std::function<void(const Packed&)>& each) {
  std::vector<Run>& runs = process->runs;
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Run& a, const Run& b) { return a.first < b.first; });
  const auto later = [](const Cursor* a, const Cursor* b) {
    return a->Top().order > b->Top().order;
  };
  std::vector<std::unique_ptr<Cursor>> cursors;
  std::priority_queue<Cursor*, std::vector<Cursor*>, decltype(later)> open(later);
  Status status = Status::Ok();
  for (size_t next = 0; next < runs.size() || !open.empty();) {
    if (next < runs.size() && (open.empty() || runs[next].first <= open.top()->Top().order)) {
      auto cursor = std::make_unique<Cursor>(&file_, runs[next++]);
      if (cursor->Next(&status)) open.push(cursor.get());
      GORDIAN_RETURN_IF_ERROR(status);
      cursors.push_back(std::move(cursor));
      continue;
    }
    Cursor* const first = open.top();
    open.pop();
    each(first->Top());
    if (first->Next(&status)) open.push(first);
    GORDIAN_RETURN_IF_ERROR(status);
    if (open.empty()) cursors.clear();
  }
  return status;
}

Status OperationSpool::ForEach(int rank, const RankOf& rank_of, size_t keep,
                               const std::function<void(const LoggedOperation&)>& each) {
  WritePending();
  size_t all = 0;
  std::vector<model::ProcessId> of_rank;
  for (const auto& [number, process] : processes_) {
    size_t here = 0;
    for (const auto& [key, count] : process.of_member) {
      if (rank_of(key.first, key.second) == rank) here += count;
    }
    if (here > 0) of_rank.push_back(number);
    all += here;
  }
  size_t extra = keep == 0 || all <= keep ? 0 : all - keep;
  for (const model::ProcessId number : of_rank) {
    GORDIAN_RETURN_IF_ERROR(Merge(&processes_[number], [&](const Packed& packed) {
      if (rank_of(packed.group, packed.member) != rank) return;
      if (extra > 0 && packed.progress == static_cast<uint8_t>(Progress::kDone)) {
        --extra;
        return;
      }
      each(Unpack(number, packed));
    }));
  }
  return Status::Ok();
}

}  // namespace gordian::exporters
