#include "analyzer/stacks/call_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/stacks/elf_symbols.h"
#include "analyzer/stacks/function_name.h"
#include "common/source_excerpt.h"
#include "common/utf8.h"
#include "gordian/v1/event.pb.h"
#include "proto/ring/record.h"

namespace gordian::analyzer {
namespace {

constexpr size_t kMaxProcesses = 65'536;
constexpr size_t kMaxModulesOfProcess = 16'384;
constexpr size_t kMaxNoted = 4'096;
constexpr size_t kMaxSites = 65'536;
constexpr size_t kMaxOpenFiles = 128;
constexpr size_t kMaxTold = 4'096;
constexpr size_t kMaxLinkageName = 1'024;
constexpr size_t kMaxShownFunction = 60;

std::string_view Basename(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

struct Mapping {
  uint64_t end = 0;
  uint64_t file_offset = 0;
  std::string path;
  std::string build_id;
};

struct Key {
  model::ProcessId process;
  uint64_t address;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    return std::hash<uint64_t>()(key.address * 0x9e3779b97f4a7c15ull + key.process);
  }
};

}  // namespace

std::string ShortForm(const CallSite& site, uint64_t address) {
  std::string function = site.function;
  if (function.size() > kMaxShownFunction) {
    function = function.substr(0, kMaxShownFunction - 3) + "...";
  }
  if (!site.file.empty() && site.line > 0) {
    const std::string_view file = Basename(site.file);
    std::string text = fmt::format("{}:{}", file, site.line);
    if (!function.empty()) text += " " + function + "()";
    if (!site.within.empty()) text += " in torch's " + site.within.substr(0, kMaxShownFunction);
    return text;
  }
  if (!site.module.empty()) {
    const std::string_view module = Basename(site.module);
    return function.empty() ? fmt::format("{}+{:#x}", module, site.offset)
                            : fmt::format("{}+{:#x} ({})", module, site.offset, function);
  }
  return address == 0 ? "" : fmt::format("{:#x}", address);
}

class CallSites::Impl {
 public:
  void OnModule(const v1::Module& module) {
    if (module.start() >= module.end() || module.path().empty()) return;
    std::lock_guard lock(mutex_);
    if (processes_.size() >= kMaxProcesses && !processes_.contains(module.process())) return;
    auto& mappings = processes_[module.process()];
    // A later mapping replaces any it covers: dlclose and dlopen reuse addresses.
    auto at = mappings.lower_bound(module.start());
    while (at != mappings.end() && at->first < module.end()) at = mappings.erase(at);
    if (mappings.size() >= kMaxModulesOfProcess) return;
    mappings[module.start()] = {.end = module.end(),
                                .file_offset = module.file_offset(),
                                .path = module.path(),
                                .build_id = module.build_id()};
  }

  void OnPlaces(const v1::StacksTaken& taken) {
    std::lock_guard lock(mutex_);
    bool learned = false;
    for (const v1::SitePlace& place : taken.sites()) {
      if (place.site() == 0 || (place.site() & ring::kTextSite) != 0) continue;
      if (place.file().size() > kMostExcerptPath || place.function().size() > kMaxLinkageName) {
        continue;
      }
      uint64_t file_offset = 0;
      const Key site{.process = taken.process(), .address = place.site()};
      const Mapping* const module = ModuleOf(site, &file_offset);
      if (module == nullptr) continue;
      const ToldKey key = ToldKeyOf(site, *module, file_offset);
      if (told_.size() >= kMaxTold && !told_.contains(key)) continue;
      told_.insert_or_assign(
          key, ElfSymbols::Place{.function = ReadableFunctionName(place.function().c_str()),
                                 .file = place.file(),
                                 .line = std::max(0, place.line())});
      learned = true;
    }
    if (learned) sites_.clear();
  }

  void OnNodes() {
    std::lock_guard lock(mutex_);
    proven_files_only_ = true;
  }

  void OnPythonSite(const Key& key, const std::string& text) {
    const size_t line = text.find('\n');
    const size_t function = line == std::string::npos ? line : text.find('\n', line + 1);
    if (function == std::string::npos) return;
    CallSite site;
    site.file = text.substr(0, line);
    const size_t within = text.find('\n', function + 1);
    site.function = text.substr(function + 1, within - function - 1);
    if (within != std::string::npos) site.within = text.substr(within + 1);
    std::from_chars(text.data() + line + 1, text.data() + function, site.line);
    std::lock_guard lock(mutex_);
    if (python_.size() < kMaxSites) python_.insert_or_assign(key, std::move(site));
  }

  void Note(const Key& key) {
    if (key.address == 0 || (key.address & ring::kTextSite) != 0) return;
    std::lock_guard lock(mutex_);
    if (noted_.size() >= kMaxNoted || !noted_.insert(key).second) return;
    to_resolve_.push_back(key);
  }

  void ResolveNoted(std::chrono::milliseconds budget) {
    const auto until = std::chrono::steady_clock::now() + budget;
    do {
      std::lock_guard lock(mutex_);
      if (to_resolve_.empty()) return;
      const Key key = to_resolve_.front();
      to_resolve_.pop_front();
      ResolveLocked(key);
    } while (std::chrono::steady_clock::now() < until);
  }

  CallSite Resolve(const Key& key) {
    if (key.address == 0) return {};
    std::lock_guard lock(mutex_);
    return ResolveLocked(key);
  }

 private:
  CallSite ResolveLocked(const Key& key) {
    if ((key.address & ring::kTextSite) != 0) {
      const auto python = python_.find(key);
      return python == python_.end() ? CallSite() : python->second;
    }
    if (auto found = sites_.find(key); found != sites_.end()) return found->second;
    CallSite site;
    if (!Lookup(key, &site)) return site;  // not cached: its module may still be announced
    if (sites_.size() >= kMaxSites) sites_.clear();
    sites_.emplace(key, site);
    return site;
  }

  // Null: no module is known to hold it. `file_offset`: of the call in the module's file.
  const Mapping* ModuleOf(const Key& key, uint64_t* file_offset) const {
    const auto process = processes_.find(key.process);
    if (process == processes_.end()) return nullptr;
    // A call site is a return address. The call lies before it, which matters if the call is the
    // last instruction of its function or line.
    const uint64_t inside = key.address - 1;
    auto mapping = process->second.upper_bound(inside);
    if (mapping == process->second.begin()) return nullptr;
    --mapping;
    if (inside >= mapping->second.end) return nullptr;
    *file_offset = inside - mapping->first + mapping->second.file_offset;
    return &mapping->second;
  }

  bool Lookup(const Key& key, CallSite* site) {
    uint64_t file_offset = 0;
    const Mapping* const module = ModuleOf(key, &file_offset);
    if (module == nullptr) return false;
    site->module = module->path;
    site->offset = file_offset + 1;
    const ElfSymbols* symbols = SymbolsOf(*module);
    uint64_t address = 0;
    ElfSymbols::Place place;
    if (symbols != nullptr && symbols->AddressOfOffset(file_offset, &address)) {
      site->offset = address + 1;
      place = symbols->Find(address);
    }
    if (place.line == 0) {
      const auto told = told_.find(ToldKeyOf(key, *module, file_offset));
      if (told != told_.end()) place = told->second;
    }
    site->function = std::move(place.function);
    site->file = std::move(place.file);
    site->line = place.line;
    return true;
  }

  // Processes that run the same file share what one node told of it; without a build id nothing
  // says that another node's file of this path is the same.
  using ToldKey = std::tuple<std::string, std::string, uint32_t, uint64_t>;
  static ToldKey ToldKeyOf(const Key& key, const Mapping& module, uint64_t file_offset) {
    return {module.path, module.build_id,
            module.build_id.empty() ? key.process / kProcessesOfNode + 1 : 0, file_offset};
  }

  const ElfSymbols* SymbolsOf(const Mapping& module) {
    auto key = std::make_pair(module.path, module.build_id);
    auto found = files_.find(key);
    if (found == files_.end()) {
      if (files_.size() >= kMaxOpenFiles) files_.clear();
      found = files_
                  .emplace(std::move(key),
                           ElfSymbols::Open(module.path, module.build_id, proven_files_only_))
                  .first;
    }
    return found->second.get();
  }

  std::mutex mutex_;
  std::unordered_map<model::ProcessId, std::map<uint64_t, Mapping>> processes_;  // by start
  std::unordered_map<Key, CallSite, KeyHash> sites_;
  std::unordered_map<Key, CallSite, KeyHash> python_;
  std::unordered_set<Key, KeyHash> noted_;
  std::deque<Key> to_resolve_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<ElfSymbols>> files_;
  std::map<ToldKey, ElfSymbols::Place> told_;  // by nodes
  bool proven_files_only_ = false;
};

CallSites::CallSites() : impl_(std::make_unique<Impl>()) {}
CallSites::~CallSites() = default;

void CallSites::OnEvent(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kModule:
      impl_->OnModule(event.module());
      break;
    case v1::Event::kStacksTaken:
      impl_->OnPlaces(event.stacks_taken());
      break;
    case v1::Event::kNodeJoined:
      impl_->OnNodes();
      break;
    default:
      break;
  }
}
void CallSites::OnModule(const v1::Module& module) { impl_->OnModule(module); }
void CallSites::OnPythonSite(model::ProcessId process, uint64_t site, const std::string& text) {
  impl_->OnPythonSite({.process = process, .address = site}, text);
}
void CallSites::Note(model::ProcessId process, uint64_t address) {
  impl_->Note({.process = process, .address = address});
}
void CallSites::ResolveNoted(std::chrono::milliseconds budget) { impl_->ResolveNoted(budget); }
CallSite CallSites::Resolve(model::ProcessId process, uint64_t address) {
  return impl_->Resolve({.process = process, .address = address});
}
std::string CallSites::Describe(const model::Site& site) {
  return Printable(ShortForm(Resolve(site.process, site.address), site.address));
}
SiteResolver CallSites::Resolver() {
  return [this](const model::Site& site) { return Describe(site); };
}

}  // namespace gordian::analyzer
