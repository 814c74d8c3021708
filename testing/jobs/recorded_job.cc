#include "testing/jobs/recorded_job.h"

#include <algorithm>
#include <utility>

#include "common/record_block.h"

namespace gordian::testing {
namespace {

using ring::RecordKind;

constexpr uint32_t kThread = 1;
constexpr uint8_t kSum = 0;
constexpr uint8_t kFloat = 7;
constexpr uint8_t kNoOperator = 255;

// Numbers of our own, on purpose not the shim's: readers must go by the symbols.
constexpr const char* kSymbols[] = {
    "ncclAllReduce",          "ncclAllGather",    "ncclReduceScatter",
    "ncclBroadcast",          "ncclSend",         "ncclRecv",
    "ncclCommInitRankConfig", "cudaStreamCreate", "cudaStreamSynchronize",
    "cudaEventRecord",        "cudaLaunchKernel", "cudaStreamWaitEvent",
    "ncclGroupEnd",
};

}  // namespace

RecordedJob::RecordedJob(int ranks, std::string module, uint64_t start_ns) : now_ns_(start_ns) {
  uint32_t number = 700;
  for (const char* symbol : kSymbols) {
    calls_[symbol] = ++number;
    v1::CallName* name = events_.emplace_back().mutable_call_name();
    name->set_call(number);
    name->set_symbol(symbol);
  }
  processes_.resize(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    v1::ProcessStarted* started = events_.emplace_back().mutable_process_started();
    started->set_process(static_cast<uint32_t>(rank) + 1);
    started->set_pid(4000 + static_cast<uint32_t>(rank));
    started->set_executable(module.empty() ? "/opt/job/train" : module);
    started->set_env_rank(rank);
    started->set_env_world_size(ranks);
    started->set_env_local_rank(rank);
    started->set_time_ns(Tick());
    started->set_markers_enabled(true);
    started->set_runtime_connect(true);
    started->set_main_tid(4000 + static_cast<uint32_t>(rank));
    if (module.empty()) continue;
    v1::Module* mapped = events_.emplace_back().mutable_module();
    mapped->set_process(static_cast<uint32_t>(rank) + 1);
    mapped->set_start(kModuleStart);
    mapped->set_end(kModuleStart + (1ull << 32));
    mapped->set_path(module);
  }
}

ring::Record RecordedJob::Next(int rank, ring::RecordKind kind, const std::string& symbol) {
  Process& process = At(rank);
  ring::Record record{};
  record.kind = kind;
  record.call = static_cast<uint16_t>(Call(symbol));
  record.thread = process.thread;
  record.order = ++process.order;
  record.ticks = Tick();
  record.call_site = process.site;
  ++process.published;
  return record;
}

void RecordedJob::Put(int rank, const ring::Record& record) {
  AppendRecord(record, BeginBlock(static_cast<uint32_t>(rank) + 1, &events_.emplace_back()));
}

void RecordedJob::Enter(int rank, const std::string& symbol) {
  Process& process = At(rank);
  ++process.entered;
  process.call = Call(symbol);
  process.call_order = process.order;
  process.since_ns = now_ns_;
  if (symbol.starts_with("nccl")) ++process.nccl_calls;
}

void RecordedJob::Leave(int rank) {
  Process& process = At(rank);
  ++process.left;
  process.call = 0;
}

void RecordedJob::MakeCommunicator(uint64_t uid, const std::vector<int>& ranks,
                                   const std::string& name) {
  const std::string symbol = "ncclCommInitRankConfig";
  const auto size = static_cast<int>(ranks.size());
  for (int member = 0; member < size; ++member) {
    const int rank = ranks[static_cast<size_t>(member)];
    Communicator& comm = At(rank).comms[uid];
    comm.id = static_cast<uint32_t>(At(rank).comms.size());
    ring::Record init = Next(rank, RecordKind::kBegin, symbol);
    init.payload.comm_init = {.comm = comm.id,
                              .nranks = size,
                              .rank = member,
                              .device = rank,
                              .uid = uid,
                              .parent = ring::kNoId,
                              .color = 0};
    Put(rank, init);
    Enter(rank, symbol);
    ring::Record text = Next(rank, RecordKind::kText, symbol);
    text.payload.text.comm = comm.id;
    name.copy(text.payload.text.text, sizeof text.payload.text.text);
    Put(rank, text);
  }
  for (int member = 0; member < size; ++member) {
    const int rank = ranks[static_cast<size_t>(member)];
    ring::Record end = Next(rank, RecordKind::kEnd, symbol);
    end.payload.end = {.result = 0,
                       .stream = ring::kNoId,
                       .ordinal = 0,
                       .comm = At(rank).comms[uid].id,
                       .nranks = size,
                       .rank = member,
                       .device = rank};
    Put(rank, end);
    Leave(rank);
  }
}

uint32_t RecordedJob::MakeStream(int rank) {
  const auto id = static_cast<uint32_t>(At(rank).streams.size()) + 1;
  At(rank).streams[id] = Stream();
  ring::Record record = Next(rank, RecordKind::kPoint, "cudaStreamCreate");
  record.payload.stream.stream = id;
  record.payload.stream.device = rank;
  record.payload.stream.handle = 0x1000 + id;
  Put(rank, record);
  return id;
}

uint64_t RecordedJob::Enqueue(int rank, const std::string& symbol, uint64_t uid, uint32_t stream_id,
                              uint64_t count, int peer, uint64_t sequence) {
  const bool reduces = symbol.find("Reduce") != std::string::npos;
  ring::Record begin = Next(rank, RecordKind::kBegin, symbol);
  begin.payload.operation = {.comm = At(rank).comms.at(uid).id,
                             .stream = stream_id,
                             .count = count,
                             .sequence = sequence,
                             .root_or_peer = peer,
                             .datatype = kFloat,
                             .reduce_op = reduces ? kSum : kNoOperator,
                             .group = 0};
  const auto group = At(rank).group.find(At(rank).thread);
  if (group != At(rank).group.end()) {
    begin.flags |= ring::kFlagInGroup;
    begin.payload.operation.group = static_cast<uint16_t>(At(rank).groups[At(rank).thread]);
  }
  Put(rank, begin);
  Enter(rank, symbol);
  if (group != At(rank).group.end()) {
    group->second.insert(stream_id);
    ring::Record end = Next(rank, RecordKind::kEnd, symbol);
    end.flags |= ring::kFlagInGroup;
    end.payload.end.rank = -1;
    end.payload.end.device = rank;
    Put(rank, end);
    Leave(rank);
    return 0;
  }
  Stream& stream = At(rank).streams.at(stream_id);
  // What stands at the head starts at once.
  if (stream.done == stream.enqueued) stream.head = stream.enqueued + 1;
  ++stream.enqueued;
  stream.last_is_kernels = false;
  ++At(rank).tracked_since_kernels;
  ring::Record end = Next(rank, RecordKind::kEnd, symbol);
  end.payload.end.stream = stream_id;
  end.payload.end.ordinal = stream.enqueued;
  end.payload.end.rank = -1;
  end.payload.end.device = rank;
  Put(rank, end);
  Leave(rank);
  return stream.enqueued;
}

void RecordedJob::BeginGroup(int rank) {
  ++At(rank).groups[At(rank).thread];
  At(rank).group[At(rank).thread].clear();
}

void RecordedJob::EndGroup(int rank) {
  Process& process = At(rank);
  const std::string symbol = "ncclGroupEnd";
  const uint32_t number = process.groups[process.thread];
  const std::set<uint32_t> streams = process.group[process.thread];
  process.group.erase(process.thread);
  ring::Record begin = Next(rank, RecordKind::kBegin, symbol);
  begin.payload.group.group = number;
  begin.payload.group.streams = static_cast<uint32_t>(streams.size());
  Put(rank, begin);
  Enter(rank, symbol);
  for (const uint32_t id : streams) {
    Stream& stream = process.streams.at(id);
    if (stream.done == stream.enqueued) stream.head = stream.enqueued + 1;
    ++stream.enqueued;
    stream.last_is_kernels = false;
    ++process.tracked_since_kernels;
    ring::Record enqueue = Next(rank, RecordKind::kEnqueue, symbol);
    enqueue.payload.enqueue = {.group = number, .stream = id, .ordinal = stream.enqueued};
    Put(rank, enqueue);
  }
  ring::Record end = Next(rank, RecordKind::kEnd, symbol);
  end.payload.end.rank = -1;
  end.payload.end.device = rank;
  Put(rank, end);
  Leave(rank);
}

uint64_t RecordedJob::Collective(int rank, const std::string& symbol, uint64_t uid, uint32_t stream,
                                 uint64_t count) {
  const int root = symbol == "ncclBroadcast" ? 0 : -1;
  return Enqueue(rank, symbol, uid, stream, count, root, At(rank).comms.at(uid).next++);
}

uint64_t RecordedJob::Send(int rank, uint64_t uid, int peer, uint32_t stream, uint64_t count) {
  return Enqueue(rank, "ncclSend", uid, stream, count, peer,
                 At(rank).comms.at(uid).transfers[{peer, true}]++);
}

uint64_t RecordedJob::Receive(int rank, uint64_t uid, int peer, uint32_t stream, uint64_t count) {
  return Enqueue(rank, "ncclRecv", uid, stream, count, peer,
                 At(rank).comms.at(uid).transfers[{peer, false}]++);
}

void RecordedJob::PutWork(int rank, const std::string& symbol, uint32_t stream, ring::WorkKind kind,
                          uint64_t ordinal, uint64_t event) {
  ring::Record record = Next(rank, RecordKind::kPoint, symbol);
  record.payload.work = {
      .stream = stream, .kind = kind, .ordinal = ordinal, .event = event, .value = 0};
  Put(rank, record);
}

void RecordedJob::Kernels(int rank, uint32_t stream_id) {
  Stream& stream = At(rank).streams.at(stream_id);
  if (stream.last_is_kernels && At(rank).tracked_since_kernels == 0) return;
  if (!stream.last_is_kernels) ++stream.enqueued;
  stream.last_is_kernels = true;
  At(rank).tracked_since_kernels = 0;
  PutWork(rank, "cudaLaunchKernel", stream_id, ring::WorkKind::kKernels, stream.enqueued, 0);
}

void RecordedJob::RecordEvent(int rank, uint32_t stream_id, uint64_t event) {
  PutWork(rank, "cudaEventRecord", stream_id, ring::WorkKind::kEventRecord,
          At(rank).streams.at(stream_id).enqueued, event);
  ++At(rank).tracked_since_kernels;
}

uint64_t RecordedJob::WaitEvent(int rank, uint32_t stream_id, uint64_t event) {
  Stream& stream = At(rank).streams.at(stream_id);
  PutWork(rank, "cudaStreamWaitEvent", stream_id, ring::WorkKind::kEventWait, ++stream.enqueued,
          event);
  stream.last_is_kernels = false;
  ++At(rank).tracked_since_kernels;
  return stream.enqueued;
}

void RecordedJob::BeginSynchronize(int rank, uint32_t stream_id) {
  ring::Record wait = Next(rank, RecordKind::kBegin, "cudaStreamSynchronize");
  wait.payload.host_wait.kind = ring::WaitKind::kStream;
  wait.payload.host_wait.stream = stream_id;
  wait.payload.host_wait.device = rank;
  wait.payload.host_wait.ordinal = At(rank).streams.at(stream_id).enqueued;
  Put(rank, wait);
  At(rank).wait_stream = stream_id;
  Enter(rank, "cudaStreamSynchronize");
}

void RecordedJob::EndSynchronize(int rank) {
  Process& process = At(rank);
  Done(rank, process.wait_stream, process.streams.at(process.wait_stream).enqueued);
  ring::Record end = Next(rank, RecordKind::kEnd, "cudaStreamSynchronize");
  end.payload.end.rank = -1;
  end.payload.end.device = rank;
  Put(rank, end);
  Leave(rank);
}

void RecordedJob::Done(int rank, uint32_t stream_id, uint64_t ordinal) {
  Stream& stream = At(rank).streams.at(stream_id);
  stream.done = std::max(stream.done, std::min(ordinal, stream.enqueued));
  stream.head = std::max(stream.head, std::min(stream.done + 1, stream.enqueued));
}

void RecordedJob::AllDone() {
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    for (auto& [id, stream] : processes_[rank].streams) {
      Done(static_cast<int>(rank), id, stream.enqueued);
    }
  }
}

v1::Event RecordedJob::RoundEvent(uint64_t number, size_t first, size_t last) {
  v1::Event event;
  v1::Round* round = event.mutable_round();
  round->set_round(number);
  round->set_begin_ns(Tick());
  for (size_t rank = first; rank < last; ++rank) {
    const Process& process = processes_[rank];
    if (!process.alive) continue;
    v1::ProcessState* state = round->add_processes();
    state->set_process(static_cast<uint32_t>(rank) + 1);
    state->set_alive(true);
    state->set_answered(true);
    state->set_nccl_calls(process.nccl_calls);
    v1::ThreadState* thread = state->add_threads();
    thread->set_thread(kThread);
    thread->set_tid(4000 + static_cast<uint32_t>(rank));
    thread->set_call(process.call);
    thread->set_call_order(process.call == 0 ? 0 : process.call_order);
    thread->set_since_ns(process.since_ns);
    thread->set_call_site(process.site);
    thread->set_entered(process.entered);
    thread->set_left(process.left);
    thread->set_published(process.published);
    thread->set_collected(process.published);
    thread->set_gpu_thread(true);
    thread->set_os_state(process.call == 0 ? v1::OS_STATE_RUNNING : v1::OS_STATE_SLEEPING);
    thread->set_name("train");
    for (int i = 0; i < library_threads_; ++i) {
      v1::ThreadState* library = state->add_threads();
      library->set_tid(5000 + static_cast<uint32_t>(rank) * 100 + static_cast<uint32_t>(i));
      library->set_os_state(v1::OS_STATE_SLEEPING);
      library->set_name("library");
      library->set_library_thread(true);
    }
    for (const auto& [id, stream] : process.streams) {
      v1::StreamState* to = state->add_streams();
      to->set_stream(id);
      to->set_enqueued(stream.enqueued);
      to->set_head(stream.head);
      to->set_done(stream.done);
    }
    for (const auto& [uid, comm] : process.comms) {
      v1::CommState* to = state->add_comms();
      to->set_comm(comm.id);
      to->set_state(2);
      to->set_next_sequence(comm.next);
    }
  }
  round->set_end_ns(Tick());
  return event;
}

void RecordedJob::Round(uint64_t number) {
  round_ = number != 0 ? number : round_ + 1;
  events_.push_back(RoundEvent(round_));
}

void RecordedJob::EndProcess(int rank, int exit_code) {
  At(rank).alive = false;
  v1::ProcessEnded* ended = events_.emplace_back().mutable_process_ended();
  ended->set_process(static_cast<uint32_t>(rank) + 1);
  ended->set_kind(v1::EXIT_KIND_CODE);
  ended->set_exit_value(exit_code);
  ended->set_time_ns(Tick());
}

void RecordedJob::EndJob(int exit_code) {
  v1::JobEnded* ended = events_.emplace_back().mutable_job_ended();
  ended->set_kind(v1::EXIT_KIND_CODE);
  ended->set_exit_value(exit_code);
  ended->set_time_ns(Tick());
}

std::vector<v1::Event> RecordedJob::Take() {
  std::vector<v1::Event> out(events_.begin() + static_cast<std::ptrdiff_t>(taken_), events_.end());
  taken_ = events_.size();
  return out;
}

std::vector<v1::Event> RecordedJob::Drain() {
  taken_ = 0;
  return std::exchange(events_, {});
}

std::vector<v1::Event> AsCollected(std::vector<v1::Event> events) {
  std::vector<v1::Event> out;
  std::map<uint32_t, size_t> blocks;  // by process, where in `out` its block is
  for (v1::Event& event : events) {
    if (!event.has_records()) {
      blocks.clear();
      out.push_back(std::move(event));
      continue;
    }
    const auto [block, fresh] = blocks.try_emplace(event.records().process(), out.size());
    if (fresh) {
      out.push_back(std::move(event));
    } else {
      out[block->second].mutable_records()->mutable_records()->append(event.records().records());
    }
  }
  return out;
}

RecordedJob TwoRanks(bool inverted, const std::string& module) {
  RecordedJob job(2, module);
  job.MakeCommunicator(1, {0, 1}, "A");
  job.MakeCommunicator(2, {0, 1}, "B");
  for (int rank : {0, 1}) job.MakeStream(rank);
  for (uint64_t uid : {1, 2}) {
    for (int rank : {0, 1}) job.Collective(rank, "ncclAllReduce", uid, 1, 1024);
    job.AllDone();
  }
  for (int rank : {0, 1}) {
    job.BeginSynchronize(rank, 1);
    job.EndSynchronize(rank);
  }
  for (int rank : {0, 1}) {
    const uint64_t first = inverted && rank == 1 ? 2 : 1;
    job.CallSiteOf(rank, RecordedJob::kModuleStart + 0x1100 * first);
    job.Collective(rank, "ncclAllReduce", first, 1, 4096);
    job.CallSiteOf(rank, RecordedJob::kModuleStart + 0x1100 * (3 - first));
    job.Collective(rank, "ncclAllReduce", 3 - first, 1, 4096);
  }
  if (!inverted) job.AllDone();
  for (int rank : {0, 1}) {
    job.CallSiteOf(rank, RecordedJob::kModuleStart + 0x4400);
    job.BeginSynchronize(rank, 1);
  }
  if (!inverted) {
    for (int rank : {0, 1}) job.EndSynchronize(rank);
  }
  return job;
}

}  // namespace gordian::testing
