// gordian attach: reports what the stacks show of a job that hangs without gordian.
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "analyzer/stacks/stack_merge.h"
#include "analyzer/stacks/stack_text.h"
#include "cli/job/process_tree.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "collector/process/proc_reader.h"
#include "collector/stacks/stack_taker.h"
#include "common/clock.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

constexpr char kDefaultDump[] = "/tmp/nccl_trace_rank_";
constexpr const char* kRankVariables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                          "SLURM_PROCID"};

constexpr uint64_t kStacksNs = 2 * kNsPerSecond;  // of one process

enum class Place { kElsewhere, kNccl, kCuda, kUnknown };

struct SeenThread {
  uint32_t tid = 0;
  std::string name;
  std::vector<model::StackFrame> frames;  // innermost first
};

struct SeenProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  int rank = -1;
  char state = '?';
  std::string command, wchan;
  std::map<std::string, int> threads;  // names, how many
  std::vector<std::string> libraries;  // of NCCL, CUDA and torch, by path
  v1::StacksTaken taken;
  std::vector<SeenThread> stacks;  // the main thread's first
  std::string no_stack;            // why
  std::vector<std::string> dumps;
  bool gpu = false;  // has mapped NCCL or CUDA
  Place place = Place::kUnknown;
  std::string where;  // a function and its library, for people
};

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return CleanUtf8(line);
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Place PlaceOf(const std::string& module) {
  const std::string name = FileName(module);
  if (name.starts_with("libnccl")) {
    return Place::kNccl;
  }
  return name.starts_with("libcuda") ? Place::kCuda : Place::kElsewhere;
}

bool IsOfInterest(const std::string& module) {
  return PlaceOf(module) != Place::kElsewhere || FileName(module).starts_with("libtorch") ||
         FileName(module).starts_with("libc10");
}

int RankOf(pid_t pid) {
  for (const char* name : kRankVariables) {
    const auto text = collector::ReadEnvironmentVariable(pid, name);
    if (text && !text->empty() && text->size() < 8 &&
        text->find_first_not_of("0123456789") == std::string::npos) {
      return std::stoi(*text);
    }
  }
  return -1;
}

std::vector<std::string> DumpsOf(pid_t pid) {
  const auto prefix = collector::ReadEnvironmentVariable(pid, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
  std::string pattern;
  for (char c : prefix && !prefix->empty() ? *prefix : std::string(kDefaultDump)) {
    pattern += (std::string("*?[\\").find(c) != std::string::npos ? "\\" : "") + std::string(1, c);
  }
  std::vector<std::string> found;
  glob_t matches{};
  if (glob((pattern + "*").c_str(), GLOB_NOSORT, nullptr, &matches) == 0) {
    for (size_t i = 0; i < matches.gl_pathc; ++i) {
      found.emplace_back(matches.gl_pathv[i]);
    }
  }
  globfree(&matches);
  std::sort(found.begin(), found.end());
  return found;
}

// A thread that a library started for itself: no call of the program ends there.
bool IsServiceThread(const SeenThread& thread) {
  return !thread.frames.empty() &&
         (PlaceOf(thread.frames.back().module) != Place::kElsewhere ||
          FileName(thread.frames.back().module).starts_with("libgordian"));
}

std::string Described(const model::StackFrame& frame) {
  return (frame.function.empty() ? "a function" : frame.function) + " in " +
         FileName(frame.python ? frame.file : frame.module);
}

void Locate(SeenProcess* process) {
  const model::StackFrame* elsewhere = nullptr;
  for (const SeenThread& thread : process->stacks) {
    if (thread.frames.empty() || IsServiceThread(thread)) {
      continue;
    }
    if (process->place == Place::kUnknown) {
      process->place = Place::kElsewhere;
    }
    // The outermost NCCL or CUDA frame is what the program called.
    for (const model::StackFrame& frame : thread.frames) {
      if (PlaceOf(frame.module) != Place::kElsewhere) {
        process->place = PlaceOf(frame.module);
        process->where = Described(frame);
      }
    }
    if (process->place != Place::kElsewhere) {
      return;
    }
    if (elsewhere == nullptr) {  // the main thread is the first
      for (const model::StackFrame& frame : thread.frames) {
        const bool of_libc = FileName(frame.module).starts_with("libc.so");
        if (!frame.function.empty() && (elsewhere == nullptr || !of_libc)) {
          elsewhere = &frame;
          if (!of_libc) {
            break;
          }
        }
      }
    }
  }
  if (elsewhere != nullptr) {
    process->where = Described(*elsewhere);
  }
}

void TakeStacks(SeenProcess* process) {
  std::vector<collector::StackThread> threads;
  for (const collector::TaskState& task : collector::ReadTasks(process->pid)) {
    const collector::StackThread thread{.tid = task.tid, .name = task.stat.name};
    threads.insert(task.tid == process->pid ? threads.begin() : threads.end(), thread);
  }
  const uint64_t begin = MonoNs();
  process->taken = collector::TakeStacks(
      process->pid, threads, {.out_of_time = [&] { return MonoNs() - begin >= kStacksNs; }});
  for (const v1::ThreadStack& thread : process->taken.threads()) {
    process->stacks.push_back(
        {.tid = thread.tid(),
         .name = thread.name(),
         .frames = analyzer::MergeFrames(thread, process->taken.python_module())});
  }
  Locate(process);
  if (process->place == Place::kUnknown) {
    process->no_stack = !process->taken.native_refused().empty() ? process->taken.native_refused()
                        : process->taken.threads().empty()
                            ? std::string("it has ended")
                            : process->taken.threads(0).native_note();
  }
}

SeenProcess Look(const ProcessStat& stat) {
  SeenProcess seen;
  seen.pid = stat.key.pid;
  seen.parent = stat.parent;
  seen.state = stat.state;
  seen.rank = RankOf(seen.pid);
  seen.command = CleanUtf8(collector::ReadCommandLine(seen.pid)).substr(0, 200);
  seen.wchan = FirstLine("/proc/" + std::to_string(seen.pid) + "/wchan");
  for (const collector::TaskState& task : collector::ReadTasks(seen.pid)) {
    ++seen.threads[CleanUtf8(task.stat.name)];
  }
  std::set<std::string> libraries;
  for (const collector::ExecutableMapping& mapping : collector::ReadMaps(seen.pid)) {
    if (IsOfInterest(mapping.path)) {
      // The link's target carries the version: libnccl.so.2 leads to libnccl.so.2.28.9.
      libraries.insert(CleanUtf8(mapping.path));
      seen.gpu = seen.gpu || PlaceOf(mapping.path) != Place::kElsewhere;
    }
  }
  seen.libraries.assign(libraries.begin(), libraries.end());
  if (seen.gpu) {
    seen.dumps = DumpsOf(seen.pid);
  }
  TakeStacks(&seen);
  return seen;
}

std::string NameOf(const SeenProcess& process) {
  return process.rank >= 0 ? "rank " + std::to_string(process.rank)
                           : "pid " + std::to_string(process.pid);
}

std::vector<analyzer::ProcessStacks> StacksOf(const std::vector<SeenProcess>& processes) {
  std::vector<analyzer::ProcessStacks> out;
  for (const SeenProcess& process : processes) {
    out.push_back({.ranks = process.rank >= 0 ? std::vector<int>{process.rank} : std::vector<int>{},
                   .pid = static_cast<uint32_t>(process.pid),
                   .taken = &process.taken});
  }
  return out;
}

nlohmann::ordered_json FramesJson(const std::vector<model::StackFrame>& frames) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const model::StackFrame& frame : frames) {
    json.push_back({{"function", frame.function},
                    {"module", frame.module},
                    {"file", frame.file},
                    {"line", frame.line},
                    {"python", frame.python}});
  }
  return json;
}

struct AttachVerdict {
  std::string verdict = "inconclusive";
  std::string summary;
  std::vector<const SeenProcess*> culprits;
  std::vector<std::string> not_visible;
};

std::string Names(const std::vector<const SeenProcess*>& processes) {
  std::string text;
  for (const SeenProcess* process : processes) {
    text += (text.empty() ? "" : ", ") + NameOf(*process);
  }
  return text;
}

// A launcher: it has mapped the libraries because its ranks inherit them, and only waits for its
// children.
bool IsLauncher(const SeenProcess& process, const std::vector<SeenProcess>& all) {
  return process.rank < 0 && process.place == Place::kElsewhere &&
         std::any_of(all.begin(), all.end(), [&](const SeenProcess& other) {
           return other.gpu && other.parent == process.pid;
         });
}

AttachVerdict Judge(const std::vector<SeenProcess>& processes) {
  AttachVerdict out;
  std::vector<const SeenProcess*> waiting, elsewhere, stopped, unseen;
  for (const SeenProcess& process : processes) {
    if (!process.gpu || IsLauncher(process, processes)) {
      continue;
    }
    if (process.state == 'T') {
      stopped.push_back(&process);
    } else if (process.place == Place::kUnknown) {
      unseen.push_back(&process);
    } else {
      (process.place == Place::kElsewhere ? elsewhere : waiting).push_back(&process);
    }
  }
  out.not_visible = {
      "which collective each rank is in, and on which communicator: gordian did not record "
      "the calls",
      "which operations have reached the GPUs, and in which order", "ranks on other machines"};
  for (std::string& what : analyzer::StacksNotVisible(StacksOf(processes))) {
    out.not_visible.push_back(std::move(what));
  }
  const bool some_wait = !waiting.empty();
  if (some_wait && !stopped.empty()) {
    out.verdict = "rank_stopped";
    out.culprits = stopped;
    out.summary = Names(stopped) + " stopped by a signal; in NCCL or CUDA: " + Names(waiting) + ".";
  } else if (some_wait && !elsewhere.empty() && unseen.empty()) {
    out.verdict = "rank_not_joined";
    out.culprits = elsewhere;
    out.summary = "Not in NCCL or CUDA: " + Names(elsewhere) + " (" + elsewhere.front()->where +
                  "); in NCCL or CUDA: " + Names(waiting) + ".";
  } else if (some_wait) {
    out.summary = "In NCCL or CUDA: " + Names(waiting) +
                  "; stacks alone do not show whether they wait for each other.";
  } else if (elsewhere.empty() && stopped.empty() && unseen.empty()) {
    out.summary = "None of the processes below has loaded NCCL or CUDA.";
  } else {
    out.summary = "None of the stacks is in NCCL or CUDA.";
  }
  return out;
}

constexpr char kNext[] =
    "start the job with `gordian run -- COMMAND` next time: gordian then says which operations "
    "wait "
    "for which, with proof";

nlohmann::ordered_json ToJson(const AttachVerdict& verdict,
                              const std::vector<SeenProcess>& processes) {
  nlohmann::ordered_json json;
  json["schema"] = "gordian.attach.v1";
  json["verdict"] = verdict.verdict;
  json["confidence"] = "suspected";  // never more: nothing was proven
  json["summary"] = verdict.summary;
  json["culprit_ranks"] = nlohmann::ordered_json::array();
  json["culprit_pids"] = nlohmann::ordered_json::array();
  for (const SeenProcess* culprit : verdict.culprits) {
    if (culprit->rank >= 0) {
      json["culprit_ranks"].push_back(culprit->rank);
    }
    json["culprit_pids"].push_back(culprit->pid);
  }
  json["not_visible"] = verdict.not_visible;
  json["next"] = kNext;
  json["processes"] = nlohmann::ordered_json::array();
  for (const SeenProcess& process : processes) {
    nlohmann::ordered_json stacks = nlohmann::ordered_json::array();
    for (const SeenThread& thread : process.stacks) {
      stacks.push_back(
          {{"tid", thread.tid}, {"name", thread.name}, {"frames", FramesJson(thread.frames)}});
    }
    const bool any = !process.stacks.empty();
    constexpr const char* kPlaces[] = {"elsewhere", "nccl", "cuda", "unknown"};
    json["processes"].push_back({{"pid", process.pid},
                                 {"rank", process.rank},
                                 {"state", std::string(1, process.state)},
                                 {"command", process.command},
                                 {"wchan", process.wchan},
                                 {"threads", process.threads},
                                 {"libraries", process.libraries},
                                 {"place", kPlaces[static_cast<int>(process.place)]},
                                 {"stack", any ? FramesJson(process.stacks.front().frames)
                                               : nlohmann::ordered_json::array()},
                                 {"stacks", stacks},
                                 {"no_stack", process.no_stack},
                                 {"flight_recorder", process.dumps}});
  }
  return json;
}

std::string ToText(const AttachVerdict& verdict, const std::vector<SeenProcess>& processes) {
  std::string text = "gordian: " + verdict.verdict +
                     (verdict.verdict == "inconclusive" ? ": " : " (suspected): ") +
                     Printable(verdict.summary) + "\n";
  for (const SeenProcess& process : processes) {
    text += "\n  " + (process.rank >= 0 ? NameOf(process) + ", " : std::string()) + "pid " +
            std::to_string(process.pid) + ", state " + process.state;
    if (!process.wchan.empty() && process.wchan != "0") {
      text += " in " + Printable(process.wchan);
    }
    text += ": " + Printable(process.command) + "\n";
    for (const std::string& library : process.libraries) {
      text += "    maps " + Printable(library) + "\n";
    }
    for (const std::string& dump : process.dumps) {
      text += "    Flight Recorder dump: " + Printable(dump) + "\n";
    }
  }
  std::vector<int> culprits;
  for (const SeenProcess* culprit : verdict.culprits) {
    culprits.push_back(culprit->rank);
  }
  text += "\nwhere the threads are:\n";
  for (const std::string& line :
       analyzer::StacksInFull(analyzer::FoldStacks(StacksOf(processes), culprits))) {
    text += line + "\n";
  }
  text += "\nnot visible:\n";
  for (const std::string& what : verdict.not_visible) {
    text += "  " + Printable(what) + "\n";
  }
  return text + "next: " + kNext + "\n";
}

int Attach(pid_t pid, bool as_json) {
  const std::optional<ProcessStat> root = ReadProcessStat(pid);
  if (!root || !root->alive()) {
    PrintError("there is no process " + std::to_string(pid) + " (try: pgrep -af python)");
    return kExitUsage;
  }
  std::vector<SeenProcess> processes = {Look(*root)};
  for (const ProcessKey& key : Descendants(pid, {})) {
    if (const std::optional<ProcessStat> stat = ReadProcessStat(key.pid);
        stat && stat->key == key && stat->alive()) {
      processes.push_back(Look(*stat));
    }
  }
  std::stable_sort(processes.begin(), processes.end(),
                   [](const SeenProcess& a, const SeenProcess& b) { return a.rank < b.rank; });
  const AttachVerdict verdict = Judge(processes);
  const bool out = PrintOut(
      as_json ? ToJson(verdict, processes)
                        .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                    "\n"
              : ToText(verdict, processes));
  if (!out) {
    return kExitUsage;
  }
  return verdict.verdict == "inconclusive" ? kExitInconclusive : kExitProblem;
}

}  // namespace

void AddAttachVerb(CLI::App& app, VerbContext* context) {
  auto pid = std::make_shared<int>(0);
  auto as_json = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand(
      "attach", "Look at a job that hangs without gordian: print its native and Python stacks");
  verb->add_option("pid", *pid, "The job's first process, or one of its ranks")
      ->required()
      ->check(CLI::PositiveNumber)
      ->type_name("PID");
  verb->add_flag("--json", *as_json, "As JSON (schema gordian.attach.v1)");
  verb->footer(
      "gordian stops each thread for a moment to copy its stack, and resumes it.\n"
      "Exit code: 1 a suspicion; 2 no such process; 3 inconclusive.\n"
      "Example: gordian attach 4711");
  verb->callback([=] {
    context->needs = Needs{.processes = true};
    context->chosen = [=] { return Attach(*pid, *as_json); };
  });
}

}  // namespace gordian::cli
