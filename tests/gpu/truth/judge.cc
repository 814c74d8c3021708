// The judge: forks the ranks, watches, decides, prints.
#include <dirent.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/gpu/truth/truth.h"

namespace truth {
namespace {

constexpr double kSample = 0.025;  // seconds

// What changes the outcome of a program, and is therefore part of it.
const char* const kEnvironment[] = {"CUDA_DEVICE_MAX_CONNECTIONS",
                                    "CUDA_LAUNCH_BLOCKING",
                                    "CUDA_MODULE_LOADING",
                                    "NCCL_CUMEM_ENABLE",
                                    "NCCL_GRAPH_MIXING_SUPPORT",
                                    "NCCL_LAUNCH_ORDER_IMPLICIT",
                                    "NCCL_P2P_DISABLE",
                                    "NCCL_RUNTIME_CONNECT"};

double Now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void Nap(double seconds) { usleep(static_cast<useconds_t>(seconds * 1e6)); }

// Whether any thread of the process wants a processor or waits for a disk.
bool Busy(pid_t pid) {
  std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return false;
  bool busy = false;
  while (dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    FILE* f = std::fopen((folder + "/" + entry->d_name + "/stat").c_str(), "r");
    if (f == nullptr) continue;
    char text[512] = {};
    size_t got = std::fread(text, 1, sizeof text - 1, f);
    std::fclose(f);
    text[got] = '\0';
    const char* end = std::strrchr(text, ')');  // the name may hold anything
    if (end != nullptr && end[1] == ' ' && (end[2] == 'R' || end[2] == 'D')) busy = true;
  }
  closedir(dir);
  return busy;
}

struct Child {
  pid_t pid = -1;
  bool ended = false;
  int status = 0;
};

// Takes note of those that have ended; true if one did.
bool Reap(std::vector<Child>* children) {
  bool news = false;
  for (Child& child : *children) {
    if (!child.ended && waitpid(child.pid, &child.status, WNOHANG) == child.pid) {
      child.ended = news = true;
    }
  }
  return news;
}

const char* Name(State state) {
  switch (state) {
    case State::kRunning:
      return "running";
    case State::kHost:
      return "host";
    case State::kFlag:
      return "flag";
    case State::kDevice:
      return "device";
    case State::kDone:
      return "done";
    case State::kError:
      return "error";
  }
  return "?";
}

std::string Quoted(const char* text) {
  std::string out = "\"";
  for (const char* c = text; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') out += '\\';
    if (static_cast<unsigned char>(*c) >= 0x20) out += *c;
  }
  return out + "\"";
}

class Judge {
 public:
  Judge(Shared* shared, std::vector<Child>* children, const JudgeOptions& options)
      : shared_(shared), children_(children), options_(options) {
    // Only the name of an emulator's function is looked for; nothing is called.
    emulated_ = dlsym(RTLD_DEFAULT, "gordianEmuDriverEntryPoint") != nullptr;
    if (options_.patience_s <= 0) options_.patience_s = emulated_ ? 1.5 : 4.0;
  }

  // "completes", "hangs", "error" or "unclear".
  const char* Decide() {
    const double start = Now();
    double still = 0;  // seconds in which nothing moved
    double last = start;
    double since_error = 0;
    std::vector<uint32_t> seen(children_->size(), 0);
    for (;;) {
      Nap(kSample);
      const double now = Now();
      // A judge that was itself kept from running has seen nothing in that time.
      const double step = std::min(now - last, 2 * kSample);
      last = now;
      bool moved = Reap(children_);
      bool all_done = true, error = false;
      for (size_t i = 0; i < children_->size(); ++i) {
        Published& p = shared_->ranks[i];
        moved |= seen[i] != p.moves;
        seen[i] = p.moves;
        const Child& child = (*children_)[i];
        all_done &= !child.ended && p.state == State::kDone;
        error |= child.ended;  // nobody leaves by himself
      }
      if (all_done) return "completes";
      if (error && (since_error += step) > 0.3) return "error";
      if (moved) {
        still = 0;
      } else if (!emulated_ || !AnyBusy()) {
        still += step;
      }
      if (still >= Patience()) return "hangs";
      if (now - start > options_.limit_s) return "unclear";
    }
  }

  bool emulated() const { return emulated_; }

 private:
  // Real init of a communicator is slow, and what comes before Begin() is not meant to hang.
  double Patience() const {
    if (emulated_) return options_.patience_s;
    bool begun = true, makes_comm = false;
    for (size_t i = 0; i < children_->size(); ++i) {
      const Published& p = shared_->ranks[i];
      begun &= p.begun.load();
      makes_comm |= p.state == State::kHost && (std::strstr(p.step, "ncclCommInit") != nullptr ||
                                                std::strstr(p.step, "ncclCommSplit") != nullptr);
    }
    if (!begun) return 5 * options_.patience_s;
    return makes_comm ? 2 * options_.patience_s : options_.patience_s;
  }

  bool AnyBusy() const {
    for (const Child& child : *children_) {
      if (!child.ended && Busy(child.pid)) return true;
    }
    return false;
  }

  Shared* shared_;
  std::vector<Child>* children_;
  JudgeOptions options_;
  bool emulated_ = false;
};

void PrintRecord(const Program& program, int ranks, size_t bytes, const char* outcome,
                 Shared* shared, const std::vector<Child>& children, bool emulated,
                 double seconds) {
  std::string line = "{\"program\": " + Quoted(program.name.c_str()) +
                     ", \"ranks\": " + std::to_string(ranks) +
                     ", \"size\": " + std::to_string(bytes) + ", \"env\": {";
  const char* comma = "";
  for (const char* name : kEnvironment) {
    if (const char* value = std::getenv(name)) {
      line += comma + Quoted(name) + ": " + Quoted(value);
      comma = ", ";
    }
  }
  line += "}, \"outcome\": " + Quoted(outcome) + ", \"ranks_at\": [";
  bool any_right = false, any_wrong = false, begun = true;
  for (int i = 0; i < ranks; ++i) {
    Published& p = shared->ranks[i];
    begun &= p.begun.load();
    const Child& child = children[static_cast<size_t>(i)];
    State state = p.state;
    std::string step = p.step;
    if (child.ended && WIFSIGNALED(child.status)) {
      step = "signal " + std::to_string(WTERMSIG(child.status)) + " in " + step;
      state = State::kError;
    }
    if (state == State::kDone) step.clear();
    Data data = p.data;
    any_right |= data == Data::kRight;
    any_wrong |= data == Data::kWrong;
    line += std::string(i == 0 ? "" : ", ") + "{\"state\": \"" + Name(state) +
            "\", \"step\": " + Quoted(step.c_str()) + ", \"data\": " +
            (data == Data::kUnchecked ? "null"
             : data == Data::kRight   ? "\"right\""
                                      : "\"wrong\"") +
            "}";
  }
  line += "], \"data\": ";
  line += any_wrong ? "\"wrong\"" : any_right ? "\"right\"" : "null";
  line += std::string(", \"begun\": ") + (begun ? "true" : "false");
  char text[96];
  std::snprintf(text, sizeof text, ", \"emulated\": %s, \"nccl\": %d, \"seconds\": %.2f}\n",
                emulated ? "true" : "false", shared->nccl_version.load(), seconds);
  line += text;
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

int RunAndJudge(const Program& program, int ranks, size_t bytes, const JudgeOptions& options) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 2;
  }
  auto* shared = static_cast<Shared*>(memory);  // zeros are its valid start
  const double start = Now();
  const pid_t judge = getpid();
  std::vector<Child> children(static_cast<size_t>(ranks));
  for (int i = 0; i < ranks; ++i) {
    pid_t pid = fork();
    if (pid < 0) {
      std::perror("fork");
      for (Child& child : children) {
        if (child.pid > 0) kill(child.pid, SIGKILL);
      }
      return 2;
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != judge) std::_Exit(9);
      Rank rank(i, ranks, bytes, shared);
      program.body(rank);
      rank.Publish(State::kDone, "");
      std::fflush(nullptr);
      while (shared->may_leave == 0) usleep(2000);
      std::_Exit(0);
    }
    children[static_cast<size_t>(i)].pid = pid;
  }
  Judge j(shared, &children, options);
  const char* outcome = j.Decide();
  PrintRecord(program, ranks, bytes, outcome, shared, children, j.emulated(), Now() - start);
  // Somebody outside may want to look at the hanging ranks first.
  if (!options.hold.empty()) {
    for (double until = Now() + 10; access(options.hold.c_str(), F_OK) != 0 && Now() < until;) {
      Nap(kSample);
    }
  }
  // After a good end they leave by themselves, as a job's processes do.
  shared->may_leave = 1;
  const bool good = std::strcmp(outcome, "completes") == 0;
  for (double until = Now() + 5; good && Now() < until;) {
    Reap(&children);
    if (std::all_of(children.begin(), children.end(), [](const Child& c) { return c.ended; }))
      break;
    Nap(0.002);
  }
  for (const Child& child : children) {
    if (!child.ended) kill(child.pid, SIGKILL);
  }
  for (Child& child : children) {
    if (!child.ended) waitpid(child.pid, &child.status, 0);
  }
  return 0;
}

}  // namespace truth

namespace {

int Usage() {
  std::fprintf(
      stderr,
      "usage: gordian_truth --list\n"
      "       gordian_truth --program NAME [--ranks N] [--size BYTES] [--patience SECONDS]\n"
      "                     [--limit SECONDS] [--hold FILE]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::string name;
  int ranks = 0;
  size_t bytes = 4096;
  truth::JudgeOptions options;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--list") {
      for (const truth::Program& program : truth::Programs()) {
        std::printf("%s %d\n", program.name.c_str(), program.min_ranks);
      }
      return 0;
    }
    if (i + 1 >= argc) return Usage();
    const char* value = argv[++i];
    if (arg == "--program") {
      name = value;
    } else if (arg == "--ranks") {
      ranks = std::atoi(value);
    } else if (arg == "--size") {
      bytes = std::strtoull(value, nullptr, 10);
    } else if (arg == "--patience") {
      options.patience_s = std::atof(value);
    } else if (arg == "--limit") {
      options.limit_s = std::atof(value);
    } else if (arg == "--hold") {
      options.hold = value;
    } else {
      return Usage();
    }
  }
  for (const truth::Program& program : truth::Programs()) {
    if (program.name != name) continue;
    if (ranks == 0) ranks = program.min_ranks;
    if (ranks < program.min_ranks || ranks > truth::kMaxRanks || bytes % 4 != 0) return Usage();
    return truth::RunAndJudge(program, ranks, bytes, options);
  }
  std::fprintf(stderr, "gordian_truth: no program '%s' (try --list)\n", name.c_str());
  return Usage();
}
