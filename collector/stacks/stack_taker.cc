#include "collector/stacks/stack_taker.h"

#include <pthread.h>

#include <map>
#include <utility>

#include "collector/process/proc_reader.h"
#include "collector/stacks/python_stack.h"
#include "common/clock.h"
#include "common/utf8.h"

namespace gordian::collector {
namespace {

// Time for the native stacks of all processes of a node together.
constexpr uint64_t kAllNs = 10 * kNsPerSecond;

}  // namespace

v1::StacksTaken TakeStacks(pid_t pid, std::span<const StackThread> threads,
                           const NativeStackOptions& options, std::span<const SiteToPlace> sites) {
  v1::StacksTaken out;
  std::vector<pid_t> tids;
  for (const StackThread& thread : threads) {
    tids.push_back(thread.tid);
  }
  out.set_time_ns(MonoNs());
  std::vector<NativeFrame> places = FramesOf(sites);
  std::vector<NativeStack> native = ReadNativeStacks(pid, tids, options, places);
  AddPlaces(sites, places, &out);
  PythonStacks python = ReadPythonStacks(pid, tids);
  std::map<pid_t, PythonStack*> python_of;
  for (PythonStack& stack : python.stacks) {
    python_of[stack.tid] = &stack;
  }
  out.set_python_module(CleanUtf8(python.module));
  out.set_python_refused(python.why_not);
  if (!native.empty() && native.front().refused) {
    out.set_native_refused(native.front().note);
  }
  for (size_t i = 0; i < threads.size(); ++i) {
    v1::ThreadStack* const to = out.add_threads();
    to->set_tid(static_cast<uint32_t>(threads[i].tid));
    to->set_name(CleanUtf8(threads[i].name));
    to->set_in_call(threads[i].in_call);
    if (!native[i].refused) {
      to->set_native_note(CleanUtf8(native[i].note));
    }
    for (NativeFrame& frame : native[i].frames) {
      v1::StackFrame* const added = to->add_native();
      added->set_function(CleanUtf8(std::move(frame.function)));
      added->set_module(CleanUtf8(std::move(frame.module)));
      if (frame.line > 0) {
        added->set_file(CleanUtf8(std::move(frame.file)));
        added->set_line(frame.line);
      }
    }
    const auto found = python_of.find(threads[i].tid);
    if (found == python_of.end()) {
      continue;
    }
    to->set_python_note(found->second->note);
    for (PythonFrame& frame : found->second->frames) {
      v1::StackFrame* const added = to->add_python();
      added->set_function(std::move(frame.function));
      added->set_file(std::move(frame.file));
      added->set_line(frame.line > 0 ? frame.line : 0);
      added->set_entry(frame.entry);
    }
  }
  return out;
}

void StackTaker::Ask(uint64_t request, std::vector<StackTarget> targets) {
  const std::lock_guard lock(mutex_);
  if (finish_) {
    return;
  }
  wanted_ = Request{request, std::move(targets)};
  if (!thread_.joinable()) {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "gordian-stacks");
      Run();
    });
  }
  changed_.notify_all();
}

std::vector<v1::Event> StackTaker::Results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

void StackTaker::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finish_ = true;
    wanted_.reset();
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void StackTaker::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return finish_ || wanted_; });
    if (finish_) {
      return;
    }
    const Request request = *std::exchange(wanted_, std::nullopt);
    lock.unlock();
    Answer(request);
    lock.lock();
  }
}

void StackTaker::Answer(const Request& request) {
  const uint64_t deadline = MonoNs() + kAllNs;
  const NativeStackOptions options{.out_of_time = [&] { return finish_ || MonoNs() >= deadline; },
                                   .while_held = &while_held_};
  for (const StackTarget& target : request.targets) {
    if (finish_) {
      break;
    }
    // The kernel may have given the pid to another process.
    const std::optional<TaskStat> stat = ReadProcessStat(target.identity.pid);
    if (!stat || stat->start != target.identity.start) {
      continue;
    }
    v1::Event event;
    *event.mutable_stacks_taken() =
        TakeStacks(target.identity.pid, target.threads, options, target.sites);
    event.mutable_stacks_taken()->set_process(target.process);
    event.mutable_stacks_taken()->set_request(request.number);
    Put(std::move(event));
  }
  v1::Event done;
  done.mutable_stacks_done()->set_request(request.number);
  Put(std::move(done));
}

void StackTaker::Put(v1::Event&& event) {
  {
    const std::lock_guard lock(mutex_);
    results_.push_back(std::move(event));
  }
  on_results_();
}

}  // namespace gordian::collector
