#include "planner/proof/job_program.h"

namespace gordian::planner {

std::pair<Moment, Moment> JobProgram::Operation(int job_rank,
                                                const std::vector<Meeting>& meetings) {
  std::string what;
  for (const Meeting& meeting : meetings) what += (what.empty() ? "" : ", ") + meeting.what;
  const Moment start = Add(job_rank, what);
  const Moment done = Add(job_rank, what);
  Wait(done, start);
  for (const Meeting& meeting : meetings) {
    ++operations_;
    const Part part{meeting, job_rank, start, done};
    const model::Role& role = meeting.role;
    const auto member = std::make_pair(meeting.comm, role.member);
    if (const auto last = last_on_comm_.find(member);
        last != last_on_comm_.end() && last->second != done) {
      Wait(start, last->second);
    }
    last_on_comm_[member] = done;
    if (model::IsTransfer(role.call)) {
      const bool sends = role.call == model::Call::kSend;
      const uint64_t which =
          next_transfer_[{meeting.comm, role.member, role.root_or_peer, sends}]++;
      const model::Ends ends = model::EndsOf(role);
      auto& transfer = transfers_[{meeting.comm, ends.source, ends.destination, which}];
      (sends ? transfer.first : transfer.second) = part;
    } else {
      collectives_[{meeting.comm, next_[member]++}].push_back(part);
    }
  }
  return {start, done};
}

std::string JobProgram::Meet() {
  const model::Buffers buffers = strict_ ? model::Buffers::kHoldNone : model::Buffers::kHoldAll;
  for (auto& [key, parts] : collectives_) {
    const Part& first = parts.front();
    for (const Part& part : parts) {
      if (model::Difference(part.meeting.signature, first.meeting.signature) != 0 ||
          part.meeting.send != first.meeting.send) {
        return "rank " + std::to_string(first.job_rank) + " makes " + first.meeting.what +
               ", rank " + std::to_string(part.job_rank) + " " + part.meeting.what +
               " at the same place";
      }
    }
    if (static_cast<int>(parts.size()) < first.meeting.size) {
      return first.meeting.what + " is made by " + std::to_string(parts.size()) + " of " +
             std::to_string(first.meeting.size) + " ranks";
    }
    for (const Part& part : parts) {
      for (const Part& other : parts) {
        if (part.start == other.start) continue;
        if (model::NeedsStartOf(part.meeting.role, other.meeting.role.member, buffers))
          Wait(part.done, other.start);
      }
    }
  }
  for (auto& [key, transfer] : transfers_) {
    if (!transfer.first || !transfer.second) {
      const Part& there = transfer.first ? *transfer.first : *transfer.second;
      return there.meeting.what + " at rank " + std::to_string(there.job_rank) +
             " has no counterpart";
    }
    const auto& [send, receive] = transfer;
    Wait(receive->done, send->start);
    if (model::NeedsOf(send->meeting.role, buffers) != model::Needs::kNoOther)
      Wait(send->done, receive->start);
  }
  return "";
}

void RankProgram::Order(uint64_t stream, model::ThreadId thread, Moment start) {
  if (const auto tail = tails_.find(stream); tail != tails_.end())
    program_.Wait(start, tail->second);
  if (const auto at = threads_.find(thread); at != threads_.end()) program_.Wait(start, at->second);
  // W13, in both directions.
  const auto flags_of = [this](uint64_t s) {
    const auto at = flags_.find(s);
    return at == flags_.end() ? 0u : at->second;
  };
  const uint32_t own = flags_of(stream);
  for (const auto& [other, tail] : tails_) {
    if (other == stream) continue;
    const uint32_t flags = flags_of(other);
    const bool blocks = ((own & model::kStreamLegacy) != 0 &&
                         (flags & (model::kStreamBlocking | model::kStreamPerThread)) != 0) ||
                        ((flags & model::kStreamLegacy) != 0 &&
                         (own & (model::kStreamBlocking | model::kStreamPerThread)) != 0);
    if (blocks) program_.Wait(start, tail);
  }
}

Moment RankProgram::Work(uint64_t stream, model::ThreadId thread, const std::vector<Moment>& after,
                         std::string what) {
  const Moment done = program_.Add(rank_, std::move(what));
  Order(stream, thread, done);
  for (const Moment moment : after) program_.Wait(done, moment);
  tails_[stream] = done;
  return done;
}

Moment RankProgram::Operation(const std::vector<uint64_t>& streams, model::ThreadId thread,
                              const std::vector<Moment>& after,
                              const std::vector<Meeting>& meetings) {
  const auto [start, done] = program_.Operation(rank_, meetings);
  for (const uint64_t stream : streams) Order(stream, thread, start);
  for (const Moment moment : after) program_.Wait(start, moment);
  for (const uint64_t stream : streams) tails_[stream] = done;
  return done;
}

void RankProgram::HostWait(model::ThreadId thread, const std::vector<Moment>& on,
                           std::string what) {
  const Moment returned = program_.Add(rank_, std::move(what));
  if (const auto at = threads_.find(thread); at != threads_.end())
    program_.Wait(returned, at->second);
  for (const Moment moment : on) program_.Wait(returned, moment);
  threads_[thread] = returned;
}

std::optional<Moment> RankProgram::Tail(uint64_t stream) const {
  const auto at = tails_.find(stream);
  return at == tails_.end() ? std::nullopt : std::optional(at->second);
}

std::vector<Moment> RankProgram::Tails() const {
  std::vector<Moment> all;
  for (const auto& [stream, tail] : tails_) all.push_back(tail);
  return all;
}

}  // namespace gordian::planner
