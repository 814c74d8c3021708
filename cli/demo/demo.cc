// gordian demo: a job that gordian brings along hangs under the emulator and is diagnosed, live and
// again from its recording; its twin ends. Needs no GPU and no compiler, and writes into one folder.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/job/install_paths.h"
#include "cli/job/job_environment.h"
#include "cli/job/launcher.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "common/config.h"
#include "common/read_file.h"
#include "common/shell_quote.h"
#include "common/status.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

struct DemoFlags {
  std::optional<std::string> folder;
  bool json = false;
};

// A command for people to try.
struct Suggestion {
  std::string verb;
  std::string words;  // behind the verb
  std::string why;
};

// How to call this program: by its name, where the shell finds it under that.
std::string OwnName(const std::string& executable) {
  const char* const search_path = getenv("PATH");
  const Program found = FindProgram("gordian", search_path != nullptr ? search_path : "");
  std::error_code error;
  const bool same =
      found.error == 0 && std::filesystem::equivalent(found.path, executable, error) && !error;
  return same ? "gordian" : ShownQuote(executable);
}

// What one of the demonstration's commands must come to.
struct Wanted {
  int exit_code = 0;
  std::string verdict, confidence;  // no confidence: any
};

class Demo {
 public:
  // `has_verb`: whether this program has a verb.
  Demo(const DemoFlags& flags, InstallPaths paths, std::string folder,
       const std::function<bool(const std::string&)>& has_verb)
      : json_(flags.json),
        paths_(std::move(paths)),
        folder_(std::move(folder)),
        name_(OwnName(paths_.executable)) {
    const std::string hung = ShownQuote(folder_ + "/hung");
    for (Suggestion& suggestion : std::vector<Suggestion>{
             {"explain", hung, "the verdict at length, with stacks"},
             {"replay", hung + " -o hang", "a small program that hangs in the same way"},
             {"doctor", "-- ./your_program", "what gordian can see in your program"},
             {"run", "-- ./your_program", "your program, watched"}}) {
      if (has_verb(suggestion.verb)) next_.push_back(std::move(suggestion));
    }
  }

  int Run() {
    if (access(paths_.demo_job.c_str(), X_OK) != 0) {
      PrintError("the demonstration's job " + paths_.demo_job +
                 " is missing; install gordian-emulator, or build hybrid_training");
      return kExitOwnFailure;
    }
    const std::string hung = folder_ + "/hung", repaired = folder_ + "/repaired";
    Say("=== 1. Four processes train (tensor, pipeline and data parallel) on emulated GPUs. From\n"
        "step 4 on, rank 3 overlaps its gradient flush, and the job hangs.\n");
    bool good =
        Step("live", hung,
             {"run", "--emulator", "--session", hung, "--on-verdict", "kill", "--", paths_.demo_job,
              "--steps", "8", "--overlap-from", "4"},
             {.exit_code = 128 + SIGKILL, .verdict = "deadlock", .confidence = "confirmed"});
    if (good) {
      Say("(gordian ended the job, as --on-verdict kill asks; without it the job would hang on)\n"
          "\n=== 2. The verdict again, from what was recorded.\n");
      good = Step("recorded", hung, {"analyze", hung},
                  {.exit_code = kExitProblem, .verdict = "deadlock", .confidence = "confirmed"});
    }
    if (good) {
      Say("\n=== 3. The same job without the overlap.\n");
      good =
          Step("repaired", repaired,
               {"run", "--emulator", "--session", repaired, "--", paths_.demo_job, "--steps", "8"},
               {.exit_code = 0, .verdict = "finished", .confidence = ""});
    }
    if (interrupted_ != 0) return 128 + interrupted_;
    if (good) Close();
    if (json_ &&
        !PrintOut(Document(good).dump(2, ' ', false, ordered_json::error_handler_t::replace) +
                  "\n")) {
      return kExitUsage;
    }
    return good ? kExitOk : kExitOwnFailure;
  }

 private:
  // With --json the document alone goes to standard output.
  void Say(std::string_view text) const { WriteAll(json_ ? STDERR_FILENO : STDOUT_FILENO, text); }

  std::string Shown(const std::vector<std::string>& arguments) const {
    std::string line = name_;
    for (const std::string& word : arguments) line += " " + ShownQuote(word);
    return line;
  }

  // Runs `gordian ARGUMENTS` and compares its exit code and `session`'s verdict with what is
  // wanted.
  bool Step(const char* name, const std::string& session, const std::vector<std::string>& arguments,
            const Wanted& wanted) {
    const std::string command = Shown(arguments);
    Say("$ " + command + "\n");
    std::vector<std::string> argv = {"gordian"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    // Its incidents stay in its folder, out of the user's own list.
    const Launched launched = Launch({.path = paths_.executable,
                                      .argv = argv,
                                      .environment = FullEnvironment({{"XDG_STATE_HOME", folder_}}),
                                      .aside = json_},
                                     signals_);
    if (launched.error != 0) {
      PrintError(DescribeExecError(paths_.executable, launched.error));
      return false;
    }
    const int code = Await(launched.pid);
    if (interrupted_ != 0) return false;
    const StatusOr<ordered_json> verdict = ReadVerdict(session);
    if (!verdict.ok()) {
      PrintError(verdict.status().message() + " (exit code " + std::to_string(code) +
                 "; try: gordian doctor)");
      return false;
    }
    steps_.push_back({{"name", name},
                      {"command", command},
                      {"exit_code", code},
                      {"session", session},
                      {"verdict", *verdict}});
    const std::string said = verdict->value("verdict", ""), sure = verdict->value("confidence", "");
    if (code == wanted.exit_code && said == wanted.verdict &&
        (wanted.confidence.empty() || sure == wanted.confidence)) {
      return true;
    }
    PrintError("expected " + wanted.verdict + " and exit code " + std::to_string(wanted.exit_code) +
               ", got " + said + " (" + sure + ") and exit code " + std::to_string(code) +
               "; the session is " + session + " (try: gordian doctor)");
    return false;
  }

  int Await(pid_t pid) {
    while (true) {
      int status = 0;
      if (const pid_t ended = waitpid(pid, &status, WNOHANG); ended == pid) {
        return ExitCodeOfStatus(status);
      }
      pollfd wait{.fd = signals_.fd(), .events = POLLIN, .revents = 0};
      (void)poll(&wait, 1, -1);
      while (const std::optional<SignalInbox::Received> signal = signals_.Next()) {
        if (signal->number == SIGCHLD) continue;
        interrupted_ = signal->number;
        if (!signal->from_kernel) kill(pid, signal->number);
      }
    }
  }

  static StatusOr<ordered_json> ReadVerdict(const std::string& session) {
    const std::string path = session + "/verdict.json";
    const StatusOr<std::string> text = ReadWholeFile(path);
    GORDIAN_RETURN_IF_ERROR(text.status());
    ordered_json verdict = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!verdict.is_object()) return Status::DataLoss(path + " is no JSON object");
    return verdict;
  }

  void Close() const {
    const std::string hung = ShownQuote(folder_ + "/hung");
    std::string text = "\n=== Where the files are (rm -r " + ShownQuote(folder_) +
                       " removes them)\n  " + hung +
                       "/report.html    the job as a page, for a browser\n  " + hung +
                       "/verdict.json   the verdict for scripts\n\n=== What to try next\n";
    for (const Suggestion& suggestion : next_) {
      text += "  " + Line(suggestion) + "    # " + suggestion.why + "\n";
    }
    Say(text);
  }

  std::string Line(const Suggestion& suggestion) const {
    return name_ + " " + suggestion.verb + " " + suggestion.words;
  }

  ordered_json Document(bool good) const {
    ordered_json json;
    json["schema"] = "gordian.demo.v1";
    json["as_expected"] = good;
    json["folder"] = folder_;
    json["steps"] = steps_;
    json["next"] = ordered_json::array();
    for (const Suggestion& suggestion : next_) json["next"].push_back(Line(suggestion));
    return json;
  }

  const bool json_;
  const InstallPaths paths_;
  const std::string folder_, name_;
  std::vector<Suggestion> next_;
  SignalInbox signals_;
  int interrupted_ = 0;  // a signal that ended the demonstration
  ordered_json steps_ = ordered_json::array();
};

// The folder given, which must be new or empty, or a new one for temporary files.
StatusOr<std::string> MakeFolder(const std::optional<std::string>& given) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!given) {
    const char* const base = getenv("TMPDIR");
    std::string pattern =
        std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/gordian-demo-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      return Status::FromErrno(errno, "cannot make a folder " + pattern + " (try --folder DIR)");
    }
    const fs::path absolute = fs::absolute(pattern, error);
    return error ? pattern : absolute.lexically_normal().string();
  }
  if (given->empty()) return Status::InvalidArgument("--folder is empty; give it a folder");
  fs::create_directories(*given, error);
  if (error) return Status::InvalidArgument("--folder " + *given + ": " + error.message());
  if (const bool empty = fs::is_empty(*given, error); !empty || error) {
    return Status::InvalidArgument("--folder " + *given + " is not empty; name a new one");
  }
  const fs::path absolute = fs::absolute(*given, error);
  return error ? *given : absolute.lexically_normal().string();
}

int RunDemo(const DemoFlags& flags, const std::function<bool(const std::string&)>& has_verb) {
  // The demonstration is the same whatever the caller has set for jobs of their own.
  for (const Setting& setting : Settings()) {
    if (setting.name != "GORDIAN_LIB_DIR") unsetenv(std::string(setting.name).c_str());
  }
  const StatusOr<std::string> folder = MakeFolder(flags.folder);
  if (!folder.ok()) {
    PrintError(folder.status().message());
    return kExitUsage;
  }
  return Demo(flags, FindInstallPaths(), *folder, has_verb).Run();
}

}  // namespace

void AddDemoVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App* verb = app.add_subcommand(
      "demo", "Watch a small job hang on emulated GPUs, and read the verdict; needs no GPU");
  verb->add_option("--folder", flags->folder,
                   "Folder for what it writes, new or empty (default: a new one in $TMPDIR)")
      ->type_name("DIR");
  verb->add_flag("--json", flags->json,
                 "Print JSON (schema gordian.demo.v1); all else goes to standard error");
  verb->footer(
      "Exit code: 0 when all verdicts are as they must be, else 125.\nExample: gordian demo");
  verb->callback([=] {
    context->chosen = [=] {
      return RunDemo(*flags, [verb](const std::string& other) {
        return !verb->get_parent()
                    ->get_subcommands([&](const CLI::App* at) { return at->get_name() == other; })
                    .empty();
      });
    };
  });
}

}  // namespace gordian::cli
