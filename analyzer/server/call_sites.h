// Turns a call site of a watched process (a return address) into function, file and line, out of
// process and without touching that process: from the module map that the collector sent and the
// ELF files on this machine's disk.
//
// Every path and address comes from a watched process and is not trusted: only regular files are
// opened, a file whose build id is not the one that was mapped is not used, and no network is asked
// for debug information.
#ifndef GORDIAN_ANALYZER_SERVER_CALL_SITES_H_
#define GORDIAN_ANALYZER_SERVER_CALL_SITES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "analyzer/graph/verdict.h"

namespace gordian::v1 {
class Module;
}

namespace gordian::server {

// What is known of one call site. Empty strings and zeros: not known.
struct CallSite {
  std::string function;  // demangled, without parameters: "Trainer::step"
  std::string file;      // as the debug information gives it
  int line = 0;
  std::string module;   // path of the mapped file
  uint64_t offset = 0;  // address in the module, as nm and objdump print it
};

// "train.cc:88 step()", else "train+0x1234 (step)", else "train+0x1234", else "0x7f..", else "".
std::string ShortForm(const CallSite& site, uint64_t address);

// How reports and JSON get the text of a site. Must be callable from any thread.
using SiteResolver = std::function<std::string(const graph::Site&)>;

// Thread-safe. Results are kept, so that asking again is cheap.
class CallSites {
 public:
  CallSites();
  ~CallSites();
  CallSites(const CallSites&) = delete;
  CallSites& operator=(const CallSites&) = delete;

  void OnModule(const v1::Module& module);

  // Remembers a site that a verdict may name soon. Cheap; at most a few thousand are kept.
  void Note(graph::ProcessId process, uint64_t address);
  // Resolves noted sites until none is left or `budget` has passed.
  void ResolveNoted(std::chrono::milliseconds budget);

  CallSite Resolve(graph::ProcessId process, uint64_t address);
  std::string Describe(const graph::Site& site);  // ShortForm of Resolve
  SiteResolver Resolver();                        // valid as long as this object

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_CALL_SITES_H_
