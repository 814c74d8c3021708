// Resolves a call site of a watched process (a return address) to function, file and line without
// touching that process: from the module map that the collector sent and the ELF files on this
// machine's disk, and from what a node answered that was asked for it.
//
// Paths and addresses come from a watched process and are not trusted: opens only regular files,
// ignores a file whose build id differs from the mapped one, and asks no network for debug
// information. Of a job on several nodes, opens only files that have the very build id that the
// node told: a file of this machine that a node merely names is not one of the job's.
#ifndef GORDIAN_ANALYZER_STACKS_CALL_SITES_H_
#define GORDIAN_ANALYZER_STACKS_CALL_SITES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "analyzer/model/verdict/verdict.h"

namespace gordian::v1 {
class Event;
class Module;
class StacksTaken;
}  // namespace gordian::v1

namespace gordian::analyzer {

// What is known of one call site. Empty strings and zeros mean unknown.
struct CallSite {
  std::string function;  // demangled, without parameters: "Trainer::step"
  std::string file;      // as the debug information gives it
  int line = 0;
  std::string module;   // path of the mapped file
  uint64_t offset = 0;  // address in the module, as nm and objdump print it
  std::string within;   // of Python: PyTorch's call that the site's is part of: "all_reduce"
};

// "train.cc:88 step()", "train.py:88 step() in torch's all_reduce", else "train+0x1234 (step)", else "train+0x1234", else "0x7f..", else "".
std::string ShortForm(const CallSite& site, uint64_t address);

// Gives reports and JSON the text of a site. Must be callable from any thread.
using SiteResolver = std::function<std::string(const model::Site&)>;

// Thread-safe. Caches its results.
class CallSites {
 public:
  CallSites();
  ~CallSites();
  CallSites(const CallSites&) = delete;
  CallSites& operator=(const CallSites&) = delete;

  // Takes modules, answers about sites, and whether nodes take part; ignores other events.
  void OnEvent(const v1::Event& event);
  void OnModule(const v1::Module& module);
  // A site of Python code: `text` is file, line, function and CallSite::within, by newlines.
  void OnPythonSite(model::ProcessId process, uint64_t site, const std::string& text);

  // Remembers a site that a verdict may name soon. Cheap; keeps at most a few thousand.
  void Note(model::ProcessId process, uint64_t address);
  // Resolves noted sites until none is left or `budget` has passed.
  void ResolveNoted(std::chrono::milliseconds budget);

  CallSite Resolve(model::ProcessId process, uint64_t address);
  std::string Describe(const model::Site& site);  // ShortForm of Resolve
  SiteResolver Resolver();                        // valid while this object lives

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_CALL_SITES_H_
