#include "collector/process/tracked_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/clock.h"
#include "common/record_block.h"
#include "common/utf8.h"
#include "proto/ring/calls.h"

namespace gordian::collector {
namespace {

// How soon to read /proc/PID/maps again for a call site that no mapping covers.
constexpr uint64_t kModulesEveryNs = 100 * kNsPerMs;
constexpr size_t kMaxUncoveredPages = 1024;
// A block of records is sent at this size: a small part of a batch.
constexpr size_t kBlockBytes = 32u << 10;
constexpr int kPageBits = 12;

// The process called NCCL, but through none of the symbols that the shim intercepts.
bool ProfilerGivesCalls(const ring::Header& header, uint64_t nccl_calls) {
  if (nccl_calls == 0) {
    return false;
  }
  for (uint16_t call = 1; call < ring::kCallCount; ++call) {
    if (ring::kCalls[call].library == ring::Library::kNccl &&
        (header.rows_used[call / 64] >> call % 64 & 1) != 0) {
      return false;
    }
  }
  return true;
}

const char* WhyCuptiIsSilent(uint32_t state) {
  switch (state) {
    case ring::kCuptiAsked:
      return "the driver has not loaded it";
    case ring::kCuptiTaken:
      return "another tool uses CUPTI";
    case ring::kCuptiMissing:
      return "libcupti was not found";
    default:
      return "CUPTI refused the subscription";
  }
}

v1::OsState OsStateOf(char state) {
  switch (state) {
    case 'R':
      return v1::OS_STATE_RUNNING;
    case 'S':
    case 'I':
      return v1::OS_STATE_SLEEPING;
    case 'D':
      return v1::OS_STATE_DISK;
    case 'T':
    case 't':
      return v1::OS_STATE_STOPPED;
    case 'Z':
    case 'X':
    case 'x':
      return v1::OS_STATE_GONE;
    default:
      return v1::OS_STATE_UNSPECIFIED;
  }
}

v1::ThreadSleep SleepKindOf(ThreadSleep sleep) {
  switch (sleep) {
    case ThreadSleep::kOutside:
      return v1::THREAD_SLEEP_OUTSIDE;
    case ThreadSleep::kThread:
      return v1::THREAD_SLEEP_THREAD;
    case ThreadSleep::kOperation:
      return v1::THREAD_SLEEP_OPERATION;
    case ThreadSleep::kWatch:
      return v1::THREAD_SLEEP_WATCH;
    case ThreadSleep::kUnknown:
      break;
  }
  return v1::THREAD_SLEEP_UNSPECIFIED;
}

void FillTask(const TaskState& task, v1::ThreadState* out) {
  out->set_tid(static_cast<uint32_t>(task.tid));
  out->set_os_state(OsStateOf(task.stat.state));
  out->set_cpu_ticks(task.stat.cpu_ticks);
  out->set_context_switches(task.context_switches);
  out->set_name(CleanUtf8(task.stat.name));
}

}  // namespace

const std::string& BuildIds::Of(const std::string& path) {
  const auto [found, added] = known_.try_emplace(path);
  if (added) {
    found->second = ReadBuildId(path);
  }
  return found->second;
}

TrackedProcess::TrackedProcess(ProcessNumber number, std::string ring_name, const RingName& name,
                               std::unique_ptr<RingFile> ring, std::string why, BuildIds* build_ids)
    : number_(number),
      ring_name_(std::move(ring_name)),
      name_(name),
      ring_(std::move(ring)),
      why_no_ring_(std::move(why)),
      build_ids_(build_ids),
      watch_(name.identity),
      sleeps_(name.identity.pid) {
  if (ring_ != nullptr) {
    drainer_ = std::make_unique<RingDrainer>(ring_.get());
    clock_ = TickClock(ring_->header().clock);
  }
}

void TrackedProcess::Announce(const Sink& sink) {
  const pid_t pid = name_.identity.pid;
  if (!watch_.Ended()) {
    executable_ = ReadExecutable(pid);
    rank_name_ = ReadRankName(pid);
  }
  v1::Event event;
  v1::ProcessStarted* const started = event.mutable_process_started();
  started->set_process(number_.number());
  started->set_pid(static_cast<uint32_t>(pid));
  started->set_main_tid(static_cast<uint32_t>(pid));
  started->set_executable(CleanUtf8(executable_));
  const uint64_t now = MonoNs();
  started->set_time_ns(now);
  started->set_ring(ring_name_);
  started->set_env_rank(-1);
  started->set_env_world_size(-1);
  started->set_env_local_rank(-1);
  // The header says whether markers are in use only once the shim has found a driver. Whether they
  // are wanted is known now; every round reports their absence.
  started->set_markers_enabled(true);
  started->set_runtime_connect(true);
  if (!watch_.Ended()) {
    started->set_command_line(CleanUtf8(ReadCommandLine(pid)));
    if (const auto wanted = ReadEnvironmentVariable(pid, "GORDIAN_MARKERS")) {
      started->set_markers_enabled(*wanted != "0");
    }
    for (const std::string& setting : ReadSettings(pid)) started->add_settings(CleanUtf8(setting));
  }
  if (ring_ != nullptr) {
    const ring::Header& header = ring_->header();
    if (rank_name_.rank.empty() && header.env_rank >= 0) {  // it has ended already
      rank_name_ = {.rank = std::to_string(header.env_rank)};
    }
    started->set_env_rank(header.env_rank);
    started->set_env_world_size(header.env_world_size);
    started->set_env_local_rank(header.env_local_rank);
    started->set_watcher_tid(header.watcher_tid);
    started->set_runtime_connect(header.runtime_connect != 0);
    started->set_shim_build_id(TextOf(header.build_id, sizeof(header.build_id)));
    if (header.clock.mono_base_ns != 0 && header.clock.mono_base_ns <= now) {
      started->set_time_ns(header.clock.mono_base_ns);
    }
  }
  sink(std::move(event));
  SendModules(sink);
}

void TrackedProcess::SendModules(const Sink& sink) {
  modules_read_ns_ = MonoNs();
  modules_stale_ = false;
  if (watch_.Ended()) {
    return;
  }
  std::vector<ExecutableMapping> now = ReadMaps(name_.identity.pid);
  if (now.empty()) {
    return;
  }
  for (const ExecutableMapping& mapping : now) {
    if (std::find(modules_.begin(), modules_.end(), mapping) != modules_.end()) {
      continue;
    }
    v1::Event event;
    v1::Module* const module = event.mutable_module();
    module->set_process(number_.number());
    module->set_start(mapping.start);
    module->set_end(mapping.end);
    module->set_file_offset(mapping.file_offset);
    module->set_path(CleanUtf8(mapping.path));
    module->set_build_id(build_ids_->Of(mapping.path));
    sink(std::move(event));
  }
  modules_ = std::move(now);
  std::sort(
      modules_.begin(), modules_.end(),
      [](const ExecutableMapping& a, const ExecutableMapping& b) { return a.start < b.start; });
}

bool TrackedProcess::Covered(uint64_t site) const {
  auto after = std::upper_bound(
      modules_.begin(), modules_.end(), site,
      [](uint64_t address, const ExecutableMapping& mapping) { return address < mapping.start; });
  return after != modules_.begin() && site < std::prev(after)->end;
}

void TrackedProcess::NoteCallSite(uint64_t site) {
  if (site == 0 || modules_stale_ || Covered(site)) {
    return;
  }
  // Code made at run time is in no file: look up each such page only once.
  if (no_module_.size() < kMaxUncoveredPages && no_module_.insert(site >> kPageBits).second) {
    modules_stale_ = true;
  }
}

uint64_t TrackedProcess::Drain(uint64_t max_records, const Sink& sink) {
  if (ring_ == nullptr || !ring_->usable()) {
    return 0;
  }
  // The shim refines its calibration over time.
  ring::Header header;
  if (!ring_->ReadHeader(&header)) {
    return 0;
  }
  clock_ = TickClock(header.clock);
  v1::Event event;
  v1::RecordBlock* block = BeginBlock(number_.number(), &event);
  const uint64_t drained =
      drainer_->Drain(max_records, [&](ThreadNumber thread, std::span<ring::Record> records) {
        for (ring::Record& record : records) {
          if (CheckRecord(thread, clock_, &record) != Checked::kFine) {
            ++bad_records_;
            continue;
          }
          ++records_;
          NoteCallSite(record.call_site);
          text_sites_.OnRecord(record);
          AppendRecord(record, block);
        }
        if (block->records().size() >= kBlockBytes) {
          sink(std::exchange(event, v1::Event()));
          block = BeginBlock(number_.number(), &event);
        }
      });
  if (!block->records().empty()) {
    sink(std::move(event));
  }
  if (modules_stale_ && MonoNs() - modules_read_ns_ >= kModulesEveryNs) {
    SendModules(sink);
  }
  return drained;
}

bool TrackedProcess::AskWatcher() {
  asked_ = false;
  ring::Header header;
  if (ring_ == nullptr || !ring_->ReadHeader(&header) || !ring_->RaiseRound(&round_request_)) {
    return false;
  }
  asked_ = true;
  return header.watcher_tid != 0;
}

bool TrackedProcess::WatcherAnswered() {
  ring::Header header;
  return asked_ && ring_->ReadHeader(&header) && header.round_answer == round_request_;
}

bool TrackedProcess::WatcherCannotAnswer() const {
  ring::Header header;
  if (ring_ == nullptr || !ring_->ReadHeader(&header)) {
    return true;
  }
  const std::optional<TaskStat> task =
      ReadTaskStat(name_.identity.pid, static_cast<pid_t>(header.watcher_tid));
  return !task || OsStateOf(task->state) == v1::OS_STATE_STOPPED ||
         OsStateOf(task->state) == v1::OS_STATE_GONE;
}

uint64_t TrackedProcess::lost_records() {
  if (ring_ == nullptr) {
    return 0;
  }
  ring::Header header;
  uint64_t lost = drainer_->lost_by_threads();
  if (ring_->ReadHeader(&header)) {
    lost = std::max(lost, header.lost_records);
  }
  // Of what is damaged, no count says how much it held.
  const uint64_t unknown = drainer_->corrupt() + (ring_->usable() ? 0 : 1);
  return lost + drainer_->overrun() + bad_records_ + unknown;
}

uint64_t TrackedProcess::nccl_calls() { return ring_ != nullptr ? ring_->NcclCalls() : 0; }

uint64_t TrackedProcess::skipped_kernels() {
  ring::Header header;
  return ring_ != nullptr && ring_->ReadHeader(&header) ? header.skipped_kernels : 0;
}

// Records that were overwritten or malformed may have been of any kind.
void TrackedProcess::NoteOtherLosses(v1::StateBlock* block) const {
  if (drainer_->overrun() + bad_records_ + drainer_->corrupt() > 0) {
    block->set_only_work_lost(false);
  }
}

bool TrackedProcess::ReadFinalBlock(v1::StateBlock* out) {
  if (ring_ == nullptr || !block_.Read(ring_.get(), true, out)) {
    return false;
  }
  NoteOtherLosses(out);
  return out->comms_size() > 0;
}

void TrackedProcess::ReadThreads(const ring::Header* header, bool with_details,
                                 v1::ProcessState* out) {
  // Reads the slots first: a thread that ends in between then reads as gone, not as one that never
  // was.
  std::vector<std::pair<uint32_t, ring::ThreadSlot>> slots;
  for (uint32_t i = 0; header != nullptr && i < header->threads_used; ++i) {
    ring::ThreadSlot slot;
    bool consistent = false;
    // The kernel may have preempted the writer in the middle of a change: wait a few time slices
    // for it.
    for (int tries = 0; tries < 20 && ring_->ReadThread(i, &slot, &consistent) && !consistent;
         ++tries) {
      usleep(200);
    }
    if (ring_->broken()) {
      break;
    }
    if (!consistent) {
      out->add_not_visible("what thread " + std::to_string(slot.tid) +
                           " is in (it kept changing its state block while it was read)");
    }
    if (slot.tid != 0) {
      slots.emplace_back(i, slot);
    }
  }

  const std::vector<TaskState> tasks = ReadTasks(name_.identity.pid);
  std::unordered_map<uint32_t, const TaskState*> by_tid;
  std::string main_name;
  bool all_stopped = !tasks.empty();
  for (const TaskState& task : tasks) {
    by_tid[static_cast<uint32_t>(task.tid)] = &task;
    all_stopped = all_stopped && OsStateOf(task.stat.state) == v1::OS_STATE_STOPPED;
    if (task.tid == name_.identity.pid) {
      main_name = task.stat.name;
    }
  }
  out->set_stopped(all_stopped);
  out->set_timer_signals(HandlesTimerSignals(name_.identity.pid));

  const uint32_t watcher_tid = header != nullptr ? header->watcher_tid : 0;
  sleeps_.Begin(tasks);
  // A thread that has used the GPU is the application's, whatever it sleeps in, unless it watches.
  const auto look_at_sleep = [&](const TaskState& task, v1::ThreadState* thread) {
    ThreadSleeps::Look look = sleeps_.ByRole(task);
    if (!look.library) {
      if (thread->library_thread() || thread->call() != 0 || task.stat.state != 'S') {
        return;
      }
      look = sleeps_.Of(task);
    }
    thread->set_sleep(SleepKindOf(look.sleep));
    const bool watches = look.sleep == ThreadSleep::kWatch;
    thread->set_library_thread(look.library && (watches || !thread->gpu_thread()));
  };
  std::unordered_set<uint32_t> with_slot;
  for (const auto& [index, slot] : slots) {
    v1::ThreadState* const thread = out->add_threads();
    const auto task = by_tid.find(slot.tid);
    if (task != by_tid.end()) {
      FillTask(*task->second, thread);
      with_slot.insert(slot.tid);
    } else {
      thread->set_os_state(v1::OS_STATE_GONE);
    }
    thread->set_thread(MakeThreadNumber(index, slot.generation).number());
    thread->set_tid(slot.tid);
    thread->set_call(slot.call);
    thread->set_call_order(slot.call_order);
    thread->set_since_ns(clock_.ToMonoNs(slot.since_ticks));
    thread->set_call_site(slot.call_site);
    thread->set_entered(slot.entered);
    thread->set_left(slot.left);
    thread->set_published(slot.ring_head);
    thread->set_gpu_thread(slot.gpu_thread != 0);
    thread->set_poll_object(slot.poll_object);
    thread->set_poll_count(slot.poll_count);
    thread->set_poll_since_ns(slot.poll_object != 0 ? clock_.ToMonoNs(slot.poll_since_ticks) : 0);
    thread->set_poll_call(slot.poll_call);
    if (slot.call != 0 && with_details) {
      FillDetail(slot.detail, thread->mutable_detail());
      NoteCallSite(slot.call_site);
    }
    thread->set_library_thread(slot.gpu_thread == 0 &&
                               ((slot.tid != 0 && slot.tid == watcher_tid) ||
                                IsLibraryThread(thread->name(), main_name, executable_)));
    if (task != by_tid.end()) {
      look_at_sleep(*task->second, thread);
    }
  }
  for (const TaskState& task : tasks) {
    if (with_slot.contains(static_cast<uint32_t>(task.tid))) {
      continue;
    }
    v1::ThreadState* const thread = out->add_threads();
    FillTask(task, thread);
    thread->set_library_thread(static_cast<uint32_t>(task.tid) == watcher_tid ||
                               IsLibraryThread(task.stat.name, main_name, executable_));
    look_at_sleep(task, thread);
  }
}

void TrackedProcess::ReadState(v1::ProcessState* out) {
  out->set_process(number_.number());
  out->set_alive(!watch_.Ended() || inherited_);
  ring::Header header;
  if (ring_ == nullptr || !ring_->ReadHeader(&header)) {
    ReadThreads(nullptr, false, out);
    out->set_lost_records(lost_records());
    out->add_not_visible(ring_ == nullptr ? why_no_ring_ : WhyUnusable());
    return;
  }
  clock_ = TickClock(header.clock);
  // This state block must report losses up to here; the next one, those during the read.
  const bool lossy = lost_records() > 0;
  // Reads it before the threads: the records it counts were published before their heads are read,
  // and so are sent before this round.
  if (lossy) {
    if (block_.Read(ring_.get(), false, out->mutable_block())) {
      NoteOtherLosses(out->mutable_block());
    } else {
      out->clear_block();
    }
  }
  ReadThreads(&header, lossy, out);
  for (const v1::PendingStream& stream : out->block().streams()) {
    for (const v1::PendingOperation& operation : stream.pending()) NoteCallSite(operation.site());
  }

  // Asked first: an answer that comes while the streams are read is of a later look than they are.
  const bool watcher_answered = WatcherAnswered();
  std::vector<ring::StreamSlot> streams;
  bool unfinished = false;
  bool enqueued = false;
  if (ring_->ReadStreams(header.streams_used, &streams)) {
    for (const ring::StreamSlot& slot : streams) {
      v1::StreamState* const stream = out->add_streams();
      stream->set_stream(slot.stream);
      stream->set_enqueued(slot.enqueued);
      stream->set_head(slot.head);
      stream->set_done(slot.done);
      unfinished = unfinished || slot.enqueued > slot.done;
      enqueued = enqueued || slot.enqueued > 0;
    }
  }
  std::vector<ring::CommSlot> comms;
  if (ring_->ReadComms(header.comms_used, &comms)) {
    for (const ring::CommSlot& slot : comms) {
      v1::CommState* const comm = out->add_comms();
      comm->set_comm(slot.comm);
      comm->set_state(static_cast<uint32_t>(slot.state));
      comm->set_next_sequence(slot.next_sequence);
    }
  }
  // The shim writes these header fields before it counts the calls or enqueues their work, and the
  // process may have called NCCL for the first time since the read above: so read the header after
  // both.
  const uint64_t nccl_calls = ring_->NcclCalls();
  const bool whole = ring_->ReadHeader(&header);
  if (ProfilerGivesCalls(header, nccl_calls)) {
    out->add_not_visible("host waits and the creation of communicators, of pid " +
                         std::to_string(name_.identity.pid) +
                         " (NCCL's profiler interface reported its calls)");
  }
  if (nccl_calls > 0 && header.cupti != ring::kCuptiNotAsked && header.cupti != ring::kCuptiTells) {
    out->add_not_visible("CUDA calls that bypass the intercepted symbols, of pid " +
                         std::to_string(name_.identity.pid) +
                         " (--cupti: " + WhyCuptiIsSilent(header.cupti) + ")");
  }
  if (header.skipped_kernels > 0) {
    out->add_not_visible("what " + std::to_string(header.skipped_kernels) +
                         " kernels would have computed, which gordian skipped (--stub-compute),");
  }
  // Without a watcher an answer is needed only while there is unfinished work to look at.
  out->set_answered(whole && (header.watcher_tid != 0 ? watcher_answered : !unfinished));
  // Reads the header after the watcher's answer: the watcher writes its findings there first.
  if (out->answered() && ring_->ReadHeader(&header)) {
    for (uint32_t i = 0; i < std::min(header.early_used, ring::kMaxEarly); ++i) {
      v1::EarlyOperation* const early = out->add_early();
      early->set_comm(header.early[i].comm);
      early->set_kind(static_cast<uint32_t>(header.early[i].kind));
      early->set_peer(header.early[i].peer);
      early->set_sequence(header.early[i].sequence);
    }
    out->set_early_unknown(header.early_more == ring::kEarlyAny);
    out->set_early_behind_operations(header.early_more == ring::kEarlyBehindOperations);
  }
  out->set_lost_streams(header.lost_streams);
  out->set_lost_comms(header.lost_comms);
  out->set_lost_markers(header.lost_markers);
  out->set_nccl_calls(nccl_calls);
  if (header.markers_enabled == 0 && nccl_calls > 0 && enqueued) {
    out->add_not_visible("GPU progress of pid " + std::to_string(name_.identity.pid) +
                         " (no CUDA driver was found, or GORDIAN_MARKERS=0)");
  }
}

std::vector<StackThread> TrackedProcess::StuckThreads(bool every_thread) {
  ring::Header header;
  const bool with_ring = ring_ != nullptr && ring_->ReadHeader(&header);
  v1::ProcessState state;
  ReadThreads(with_ring ? &header : nullptr, false, &state);
  const uint32_t watcher_tid = with_ring ? header.watcher_tid : 0;
  std::vector<StackThread> in_call, gpu, all;
  for (const v1::ThreadState& thread : state.threads()) {
    // The emulator's devices explain no hang, but one may be in a host function of the program:
    // FoldStacks() leaves out those that are not.
    const bool own = !every_thread && thread.library_thread() && thread.name().starts_with("emu-");
    if (thread.os_state() == v1::OS_STATE_GONE || thread.tid() == watcher_tid || own) {
      continue;
    }
    const StackThread one{.tid = static_cast<pid_t>(thread.tid()),
                          .name = thread.name(),
                          .in_call = thread.call() != 0 || thread.poll_object() != 0};
    all.push_back(one);
    if (thread.sleep() == v1::THREAD_SLEEP_WATCH) continue;  // in the same place in each job
    if (one.in_call) {
      in_call.push_back(one);
    } else if (thread.gpu_thread()) {
      gpu.push_back(one);
    }
  }
  if (every_thread) {
    return all;
  }
  if (!in_call.empty() || !gpu.empty()) {
    return in_call.empty() ? gpu : in_call;
  }
  std::erase_if(all, [this](const StackThread& one) { return one.tid != name_.identity.pid; });
  return all;
}

bool TrackedProcess::CaughtUp(const v1::ProcessState& state) const {
  if (ring_ == nullptr || !ring_->usable()) {
    return true;
  }
  for (const v1::ThreadState& thread : state.threads()) {
    if (thread.thread() != 0 && !drainer_->ignored(SlotOf(ThreadNumber(thread.thread()))) &&
        drainer_->collected(SlotOf(ThreadNumber(thread.thread()))) < thread.published()) {
      return false;
    }
  }
  return true;
}

std::string TrackedProcess::WhyUnusable() const {
  if (ring_ == nullptr || ring_->usable()) {
    return "";
  }
  return ring_->broken() ? "its records (its ring file was truncated while gordian read it)"
                         : "its records (another process has written to its ring file)";
}

void TrackedProcess::FillCollected(v1::ProcessState* state) {
  if (ring_ == nullptr) {
    return;
  }
  for (v1::ThreadState& thread : *state->mutable_threads()) {
    if (thread.thread() != 0) {
      thread.set_collected(drainer_->collected(SlotOf(ThreadNumber(thread.thread()))));
    }
  }
  state->set_lost_records(lost_records());
  if (drainer_->corrupt() > 0) {
    state->add_not_visible("records of some threads (their rings are damaged)");
  }
  if (!ring_->usable()) {
    state->set_answered(false);
    state->add_not_visible(WhyUnusable());
  }
}

}  // namespace gordian::collector
