// Makes a job of the bytes, in which every field is what a peer or a damaged file may make it, near
// enough to a real one that it reaches the model.
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/session/analysis.h"
#include "common/record_block.h"
#include "proto/ring/calls.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {
namespace {

constexpr uint32_t kProcesses = 3;

// Hands out the input's bytes in order; zeros behind its end.
class Choices {
 public:
  Choices(const uint8_t* data, size_t bytes) : data_(data), left_(bytes) {}

  bool ended() const { return left_ == 0; }

  template <typename Number>
  Number Take() {
    Number number = 0;
    const size_t bytes = std::min(sizeof number, left_);
    if (bytes > 0) std::memcpy(&number, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return number;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

class Hostile {
 public:
  Hostile(const uint8_t* data, size_t bytes) : choices_(data, bytes) {
    const uint32_t third = Below(3);
    calm_ = third == 0 ? 1 : third * 10;
    // Few calls a program: chance alone would hardly let two of them meet.
    for (int i = 0; i < 6; ++i) calls_.push_back(1 + Below(ring::kEveryCallCount - 1));
    for (const uint32_t call : {ring::kCall_ncclAllReduce, ring::kCall_ncclCommInitRank,
                                ring::kCall_cudaStreamSynchronize}) {
      calls_.push_back(call);
    }
  }

  void Feed(analyzer::Analysis* events) {
    for (uint32_t call = 1; call < ring::kEveryCallCount; ++call) {
      v1::Event event;
      event.mutable_call_name()->set_call(call);
      event.mutable_call_name()->set_symbol(ring::RowOf(static_cast<uint16_t>(call)).name);
      events->OnEvent(event);
    }
    for (uint32_t process = 1; process <= kProcesses; ++process) {
      v1::Event event;
      event.mutable_process_started()->set_process(process);
      event.mutable_process_started()->set_env_rank(Rank());
      event.mutable_process_started()->set_env_world_size(Size());
      events->OnEvent(event);
    }
    for (int step = 0; step < 12 && !choices_.ended(); ++step) {
      for (int blocks = 0; blocks < 4; ++blocks) events->OnEvent(Block());
      events->OnEvent(Round());
      if (Below(30) == 0) events->OnEvent(Ended());
    }
  }

 private:
  // One byte of the input, or two, or four: a changed choice moves none of the others.
  uint32_t Below(uint32_t limit) {
    return limit <= 256       ? choices_.Take<uint8_t>() % limit
           : limit <= 1 << 16 ? choices_.Take<uint16_t>() % limit
                              : choices_.Take<uint32_t>() % limit;
  }
  // Once in so many times; more seldom in a program that is to get far.
  bool Seldom(uint32_t times) { return Below(times * calm_) == 0; }
  uint32_t Id() { return Seldom(10) ? choices_.Take<uint32_t>() : Below(4); }
  int32_t Rank() {
    constexpr int32_t kRanks[] = {INT_MIN, -2,   -1,   4,       5,       7,
                                  63,      4095, 5000, 1 << 17, 1 << 20, INT_MAX};
    return Seldom(3) ? kRanks[Below(std::size(kRanks))] : static_cast<int32_t>(Below(3));
  }
  int32_t Size() {
    constexpr int32_t kSizes[] = {INT_MIN, -1, 0, 1, 4, 65, INT_MAX};
    return Seldom(4) ? kSizes[Below(std::size(kSizes))] : 2 + static_cast<int32_t>(Below(2));
  }
  uint64_t Number() {
    constexpr uint64_t kNumbers[] = {1ull << 32, (1ull << 56) - 1, 1ull << 56, UINT64_MAX};
    return Seldom(12) ? kNumbers[Below(std::size(kNumbers))] : Below(5);
  }
  uint8_t Flags() { return Seldom(3) ? choices_.Take<uint8_t>() : 0; }

  void Fill(ring::PayloadKind holds, ring::Record* record) {
    auto& to = record->payload;
    switch (holds) {
      case ring::PayloadKind::kOperation:
        to.operation = {.comm = Id(),
                        .stream = Id(),
                        .count = Number(),
                        .sequence = Number(),
                        .root_or_peer = Rank(),
                        .datatype = choices_.Take<uint8_t>(),
                        .reduce_op = choices_.Take<uint8_t>(),
                        .group = static_cast<uint16_t>(Below(3))};
        return;
      case ring::PayloadKind::kSignal:
        to.signal = {.comm = Id(),
                     .stream = Id(),
                     .peer = Rank(),
                     .index = Rank(),
                     .context = Rank(),
                     .count = static_cast<uint32_t>(Number()),
                     .group = Below(3),
                     .number = static_cast<uint32_t>(Number())};
        return;
      case ring::PayloadKind::kCommInit:
        to.comm_init = {.comm = Id(),
                        .nranks = Size(),
                        .rank = Rank(),
                        .device = Rank(),
                        .uid = Below(4),
                        .parent = Below(2) == 0 ? 0 : Id(),
                        .color = Rank()};
        return;
      case ring::PayloadKind::kHostWait:
        to.host_wait = {.kind = static_cast<ring::WaitKind>(Below(10)),
                        .stream = Id(),
                        .device = Rank(),
                        .part = Below(4),
                        .event = Below(4),
                        .ordinal = Number()};
        return;
      case ring::PayloadKind::kStreamWork:
        to.work = {.stream = Id(),
                   .kind = static_cast<ring::WorkKind>(Below(23)),
                   .ordinal = Number(),
                   .event = Below(3) == 0 ? Number() << 32 | Below(4) : Below(4),
                   .value = Number()};
        return;
      case ring::PayloadKind::kGraph:
        to.graph = {.what = static_cast<ring::GraphCall>(Below(8)),
                    .reserved0 = 0,
                    .graph = Below(4),
                    .made = Below(4),
                    .capture = Below(4)};
        return;
      default:
        for (uint64_t& word : to.words) {
          word = Number() << 32 | static_cast<uint32_t>(Rank());
          if (Below(2) == 0) word = static_cast<uint64_t>(Id()) << 32 | Id();
        }
    }
  }

  ring::Record Record(uint32_t process) {
    ring::Record record{};
    record.kind = static_cast<ring::RecordKind>(1 + Below(6));
    record.flags = Flags();
    record.call = static_cast<uint16_t>(calls_[Below(static_cast<uint32_t>(calls_.size()))]);
    if (Seldom(50)) record.call = choices_.Take<uint16_t>();
    record.thread = 1 + Below(2);
    record.order = Seldom(20) ? Number() : ++order_[process];
    record.ticks = Seldom(20) ? choices_.Take<uint64_t>() : 1'000'000 * ++time_;
    const bool known = record.call < ring::kEveryCallCount;
    if (record.kind == ring::RecordKind::kEnd) {
      record.payload.end = {.result = Seldom(4) ? static_cast<int32_t>(Below(9)) : 0,
                            .stream = Id(),
                            .ordinal = Number(),
                            .comm = Id(),
                            .nranks = Size(),
                            .rank = Rank(),
                            .device = Rank()};
    } else {
      Fill(known && record.kind != ring::RecordKind::kEnqueue ? ring::RowOf(record.call).payload
                                                              : ring::PayloadKind::kNone,
           &record);
    }
    if (record.kind == ring::RecordKind::kBegin) {
      open_[process][record.thread] = {record.call, record.order};
    }
    return record;
  }

  v1::Event Block() {
    v1::Event event;
    const uint32_t process = 1 + Below(kProcesses);
    v1::RecordBlock* const block = BeginBlock(process, &event);
    for (uint32_t left = 1 + Below(12); left > 0; --left) AppendRecord(Record(process), block);
    return event;
  }

  void FillBlock(v1::StateBlock* block) {
    for (uint32_t left = Below(3); left > 0; --left) {
      v1::BlockComm* const comm = block->add_comms();
      comm->set_comm(Id());
      comm->set_uid(Below(4));
      comm->set_other_uid(Below(3) == 0 ? Below(4) : 0);
      comm->set_nranks(Size());
      comm->set_rank(Rank());
      comm->set_device(Rank());
      comm->set_parent(Below(2) == 0 ? 0 : Id());
      comm->set_state(Id());
    }
    for (uint32_t left = Below(4); left > 0; --left) {
      v1::CalledNumbers* const numbers = block->add_numbers();
      numbers->set_comm(Id());
      numbers->set_kind(1 + Below(6));
      numbers->set_peer(Rank());
      numbers->set_flags(Flags());
      numbers->set_open(Id());
      numbers->set_next(Number());
      numbers->set_color(Rank());
      numbers->set_windows(Number());
      numbers->set_first(Number());
      for (uint32_t told = Below(4); told > 0; --told) {
        v1::CalledSignature* const signature = numbers->add_last();
        signature->set_root(Rank());
        signature->set_call(calls_[Below(static_cast<uint32_t>(calls_.size()))]);
        signature->set_count(Number());
      }
    }
    for (uint32_t left = Below(3); left > 0; --left) {
      v1::PendingStream* const stream = block->add_streams();
      stream->set_stream(Id());
      stream->set_device(Rank());
      stream->set_enqueued(Number());
      stream->set_done(Number());
      stream->set_whole(Below(3) != 0);
      stream->set_gap_last(Below(4) == 0 ? Number() : 0);
      for (uint32_t pending = Below(3); pending > 0; --pending) {
        v1::PendingOperation* const operation = stream->add_pending();
        operation->set_ordinal(Number());
        operation->set_launch(Number());
        operation->set_comm(Id());
        operation->set_root_or_peer(Rank());
        operation->set_sequence(Number());
        operation->set_count(Number());
        operation->set_call(calls_[Below(static_cast<uint32_t>(calls_.size()))]);
        operation->set_in_group(Below(2) == 0);
        if (Below(2) == 0) operation->mutable_channel()->set_index(Rank());
        v1::PendingOperation::After* const after = operation->add_after();
        after->set_stream(Id());
        after->set_back(Id());
        after->set_ordinal(Number());
      }
    }
    block->set_signals(Below(2) == 0);
    block->set_only_work_lost(Below(3) == 0);
  }

  v1::Event Round() {
    v1::Event event;
    v1::Round* const round = event.mutable_round();
    round->set_round(++round_);
    round->set_begin_ns(1'000'000 * ++time_);
    round->set_end_ns(1'000'000 * ++time_);
    for (uint32_t process = 1; process <= kProcesses; ++process) {
      v1::ProcessState* const state = round->add_processes();
      state->set_process(process);
      state->set_alive(!Seldom(20));
      state->set_answered(!Seldom(5));
      state->set_lost_records(Seldom(3) ? Number() : 0);
      state->set_nccl_calls(Number());
      for (uint32_t thread = 1; thread <= 2; ++thread) {
        v1::ThreadState* const to = state->add_threads();
        to->set_thread(thread);
        to->set_tid(thread + 100 * process);
        const auto& [call, order] = open_[process][thread];
        to->set_call(Seldom(3) ? calls_[Below(static_cast<uint32_t>(calls_.size()))] : call);
        to->set_call_order(Seldom(3) ? Number() : order);
        to->set_published(Seldom(4) ? Number() : 0);
        to->set_os_state(v1::OS_STATE_SLEEPING);
        if (Below(2) != 0) continue;
        v1::CallDetail* const detail = to->mutable_detail();
        detail->set_comm(Id());
        detail->set_stream(Id());
        detail->set_sequence(Number());
        detail->set_root_or_peer(Rank());
        detail->set_wait(Below(9));
        detail->set_flags(Flags());
        detail->set_device(Rank());
        v1::StreamPlace* const place = detail->add_covered();
        place->set_stream(Id());
        place->set_ordinal(Number());
      }
      for (uint32_t stream = 1; stream < 4; ++stream) {
        if (Below(2) == 0) continue;
        v1::StreamState* const to = state->add_streams();
        to->set_stream(stream);
        to->set_enqueued(Number());
        to->set_head(Number());
        to->set_done(Number());
      }
      for (uint32_t comm = 1; comm < 4; ++comm) {
        if (Below(2) == 0) continue;
        v1::CommState* const to = state->add_comms();
        to->set_comm(comm);
        to->set_state(Id());
        to->set_next_sequence(Number());
      }
      if (Below(4) == 0) {
        v1::EarlyOperation* const early = state->add_early();
        early->set_comm(Id());
        early->set_kind(1 + Below(4));
        early->set_peer(Rank());
        early->set_sequence(Number());
      }
      if (Below(3) == 0) FillBlock(state->mutable_block());
    }
    return event;
  }

  v1::Event Ended() {
    v1::Event event;
    v1::ProcessEnded* const ended = event.mutable_process_ended();
    ended->set_process(1 + Below(kProcesses));
    ended->set_kind(v1::EXIT_KIND_CODE);
    ended->set_exit_value(Rank());
    ended->set_lost_records(Number());
    if (Below(2) == 0) FillBlock(ended->mutable_block());
    return event;
  }

  Choices choices_;
  uint32_t calm_ = 1;
  std::vector<uint32_t> calls_;
  uint64_t order_[kProcesses + 1] = {};
  // The last call that each thread has begun, and its order.
  std::pair<uint32_t, uint64_t> open_[kProcesses + 1][3] = {};
  uint64_t time_ = 1'000, round_ = 0;
};

}  // namespace

void FuzzAnalysis(const uint8_t* data, size_t bytes) {
  analyzer::Analysis analysis({});
  Hostile(data, bytes).Feed(&analysis);
  uint64_t revision = 0;
  analysis.Update();
  if (analysis.StatusJson(&revision).empty()) std::abort();
  analysis.Finish();
  if (analysis.CurrentJson(&revision).empty()) std::abort();
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzAnalysis(data, bytes);
  return 0;
}
#endif
