#include "replayer/predict/windows.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "replayer/record/needed_calls.h"

namespace gordian::replayer {

using model::ProcessId;

Windows::Windows(const JobFacts& facts, const CallLog& log) : facts_(facts) {
  const model::Names names(facts.execution, facts.matcher);
  for (const auto& [id, process] : log.processes()) {
    if (names.incarnations().Replaced(id)) continue;
    Rank& rank = ranks_[id];
    rank.log = &process;
    Read(id, &rank);
  }
  Begin();
  for (auto& [id, rank] : ranks_) rank.end = rank.begin;
}

size_t Windows::calls() const {
  size_t calls = 0;
  for (const auto& [id, rank] : ranks_) {
    calls += rank.end - rank.begin;
    if (!rank.group_ends) continue;
    for (size_t call = rank.begin; call < rank.end; ++call) calls -= !rank.IsOfWindow(call);
  }
  return calls;
}

size_t Windows::before() const {
  size_t before = 0;
  for (const auto& [id, rank] : ranks_) before += rank.begin;
  return before;
}

bool Windows::HasThreads() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank.second.threads > 1; });
}

// What the first call of a kind says of the others.
void Windows::Know(ProcessId id, uint32_t number, Known* known, Rank* rank) {
  const CallKind& call = rank->log->kinds[number];
  Kind& kind = rank->kinds[number];
  kind.called = true;
  kind.thread = known->threads.try_emplace(call.thread, rank->threads).first->second;
  rank->threads = static_cast<uint32_t>(known->threads.size());
  rank->group_ends |= call.IsGroupEnd();
  if (!call.IsOperation()) return;
  kind.comm = CommOf(facts_, id, call.comm);
  if (kind.comm < 0) {
    unknown_comm_ = true;
    return;
  }
  const int me = facts_.execution.Find(id)->comms.find(call.comm)->second.rank;
  const model::Ends ends = model::EndsOf({call.call, me, call.root_or_peer});
  const auto [channel, added] = channel_of_.try_emplace({kind.comm, ends.source, ends.destination},
                                                        static_cast<uint32_t>(channels_.size()));
  if (added) {
    const model::Communicator& comm = facts_.matcher.comms()[static_cast<size_t>(kind.comm)];
    channels_.emplace_back().members = ends.source >= 0 ? 2 : comm.members.size();
  }
  kind.channel = channel->second;
  ++rank->operation_kinds;
  kind.counter =
      known->counters.try_emplace(kind.channel, static_cast<uint32_t>(rank->counters.size()))
          .first->second;
  rank->counters.resize(known->counters.size(), 0);
}

void Windows::Read(ProcessId id, Rank* rank) {
  const LoggedProcess& log = *rank->log;
  rank->kinds.resize(log.kinds.size());
  rank->numbers.resize(log.calls.size());
  Known known;
  std::map<std::pair<uint32_t, uint16_t>, uint32_t> open;  // groups, by thread and number
  for (uint32_t index = 0; index < log.calls.size(); ++index) {
    const LoggedCall& call = log.calls[index];
    if (call.order < log.comms_made) rank->begin = index + 1;
    Kind& kind = rank->kinds[call.kind];
    if (!kind.called) Know(id, call.kind, &known, rank);
    if (kind.channel != kNone) rank->numbers[index] = rank->counters[kind.counter]++;
    const CallKind& about = log.kinds[call.kind];
    const bool grouped = kind.channel != kNone && about.InGroup();
    if (!grouped && !about.IsGroupEnd()) continue;
    const std::pair key(about.thread, call.group);
    if (grouped) {
      if (rank->group_of.empty()) rank->group_of.resize(log.calls.size(), kNone);
      const auto [group, begun] = open.try_emplace(key, static_cast<uint32_t>(rank->groups.size()));
      if (begun) rank->groups.push_back({.first = index});
      rank->group_of[index] = group->second;
    } else if (const auto group = open.find(key); group != open.end()) {
      rank->groups[group->second].last = index;
      rank->group_of[index] = group->second;
      open.erase(group);
    }
  }
}

// Raises each rank's first call until operations before it are before it at all of their members.
void Windows::Begin() {
  std::vector<std::vector<bool>> before(channels_.size());  // by channel and number
  for (bool changed = true; changed;) {
    changed = false;
    bool any = false;
    for (const auto& [id, rank] : ranks_) {
      // Operations of a group that began there may be behind it.
      const size_t end = rank.groups.empty() ? rank.begin : rank.log->calls.size();
      for (size_t call = 0; call < end; ++call) {
        const uint32_t channel = rank.KindOf(call).channel;
        if (channel == kNone || rank.SpanOf(call).first >= rank.begin) continue;
        std::vector<bool>& numbers = before[channel];
        if (numbers.size() <= rank.numbers[call]) numbers.resize(rank.numbers[call] + 1);
        numbers[rank.numbers[call]] = true;
        any = true;
      }
    }
    if (!any) return;
    for (auto& [id, rank] : ranks_) {
      for (size_t own = 0; own < rank.log->calls.size(); ++own) {
        const uint32_t channel = rank.KindOf(own).channel;
        if (channel == kNone || before[channel].size() <= rank.numbers[own]) continue;
        const Group span = rank.SpanOf(own);
        if (span.last < rank.begin || !before[channel][rank.numbers[own]]) continue;
        rank.begin = size_t{span.last} + 1;
        changed = true;
      }
    }
  }
}

// Counts the members of each operation of the window.
void Windows::Count() {
  for (const uint32_t channel : counted_) {
    channels_[channel].least = kNone;
    channels_[channel].seen.clear();
  }
  counted_.clear();
  for (const auto& [id, rank] : ranks_) {
    for (size_t call = rank.begin; call < rank.end; ++call) {
      if (!rank.IsOperationOf(call)) continue;
      Channel& channel = channels_[rank.KindOf(call).channel];
      const uint32_t number = rank.numbers[call];
      if (channel.least == kNone) {
        counted_.push_back(rank.KindOf(call).channel);
        channel.least = number;
      } else if (number < channel.least) {
        channel.seen.insert(channel.seen.begin(), channel.least - number, 0);
        channel.least = number;
      }
      const size_t place = number - channel.least;
      if (channel.seen.size() <= place) channel.seen.resize(place + 1);
      ++channel.seen[place];
    }
  }
}

// Lowers the rank's end to its first operation that not all members have. Returns whether it did.
bool Windows::Lower(Rank* rank) {
  for (size_t call = rank->begin; call < rank->end; ++call) {
    const uint32_t channel = rank->KindOf(call).channel;
    if (channel == kNone) continue;
    const Group span = rank->SpanOf(call);
    if (span.first < rank->begin) continue;
    const Channel& of = channels_[channel];
    if (span.last < rank->end && of.seen[rank->numbers[call] - of.least] == of.members) continue;
    rank->end = span.first;
    return true;
  }
  return false;
}

bool Windows::Next(size_t most) {
  const size_t of_rank = most / std::max<size_t>(ranks_.size(), 1);
  bool more = false;
  for (auto& [id, rank] : ranks_) {
    rank.begin = rank.end;
    const size_t left = rank.log->calls.size() - rank.begin;
    rank.end = rank.begin + std::min(left, of_rank);
    more |= left > of_rank;
  }
  for (bool changed = true; changed;) {
    changed = false;
    Count();
    for (auto& [id, rank] : ranks_) changed |= Lower(&rank);
  }
  return more;
}

}  // namespace gordian::replayer
