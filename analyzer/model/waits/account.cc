#include "analyzer/model/waits/account.h"

#include <algorithm>

namespace gordian::model {

Account AccountOf(const Process& process, const CommMember& member, const PartRef& part) {
  const bool follows_graphs = process.graph_execs.empty() && !process.lost_sight;
  const auto local = process.comms.find(member.comm);
  const bool collective = part.kind == PartKind::kCollective;
  const uint64_t launched =
      local == process.comms.end() || !collective ? 0 : local->second.collectives.launched;
  const StateBlock* block = process.block.get();
  if (process.unknown.calls && block != nullptr && !block->blind && block->FindComm(member.comm)) {
    const NumberKind kind = collective                     ? NumberKind::kCollective
                            : part.kind == PartKind::kSend ? NumberKind::kSend
                                                           : NumberKind::kReceive;
    const CalledNumbers* numbers = block->FindNumbers(member.comm, kind, part.peer);
    if (numbers != nullptr && numbers->next + launched > part.sequence) return Account::kCalled;
    // A peer that nothing was ever sent to has no numbers, unless they ran out.
    const bool told = numbers != nullptr || (!collective && !block->numbers_incomplete);
    if (told && follows_graphs) return Account::kNotCalled;
  }
  if (!collective) return Account::kSilent;
  for (const CommStateNow& now : process.state.comms) {
    if (now.comm != member.comm) continue;
    if (now.next_sequence + launched > part.sequence) return Account::kCalled;
    return follows_graphs ? Account::kNotCalled : Account::kSilent;
  }
  return Account::kSilent;
}

bool SaysNotIn(const Process& process, const Matcher& matcher, const InitCall& init,
               CommId parent) {
  const StateBlock* block = process.block.get();
  if (block == nullptr || block->blind) return false;
  if (MakesCommunicator(init.call)) {
    // Under another name it may be the same.
    const bool two_names = init.call == Call::kCommGrow && !matcher.HasOtherName(init.uid);
    return std::none_of(block->comms.begin(), block->comms.end(), [&](const BlockComm& comm) {
      return matcher.Resolve(comm.uid) == init.uid ||
             (two_names && comm.nranks == static_cast<int>(init.members.size()));
    });
  }
  const BlockComm* comm = block->FindComm(parent);
  if (comm == nullptr || comm->state != CommState::kReady) return false;
  for (const ThreadState& state : process.state.threads) {
    if (state.call_id == 0 || state.call != init.call) continue;
    // In such a call: in another one, if that is known.
    const auto thread = process.threads.find(state.thread);
    if (thread == process.threads.end() || !thread->second.open ||
        thread->second.open->record.order != state.call_order || thread->second.open->init == 0 ||
        thread->second.open->init == init.uid) {
      return false;
    }
  }
  if (init.call != Call::kCommWindowRegister) return true;
  const CalledNumbers* numbers = block->FindNumbers(parent, NumberKind::kCollective, -1);
  constexpr uint64_t kAhead = 64;  // no member is further ahead of the others than by one
  for (uint64_t n = 0; numbers != nullptr && n < kAhead; ++n) {
    if (MeetingUid(matcher.comms()[init.parent], init.call, numbers->windows + n) == init.uid) {
      return true;
    }
  }
  return false;
}

}  // namespace gordian::model
