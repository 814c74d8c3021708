#include "analyzer/stacks/call_sites.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/stacks/function_name.h"
#include "gordian/v1/event.pb.h"
#include "proto/ring/record.h"

namespace gordian::analyzer {
namespace known {

struct Place {
  uint64_t return_address;
  int line;
};

[[gnu::noinline]] uint64_t ReturnAddress() {
  asm volatile("");  // not a pure function: calls stay calls
  return reinterpret_cast<uint64_t>(__builtin_return_address(0));
}

template <typename T>
struct Trainer {
  [[gnu::noinline]] static Place Step(int, const char*) {
    Place place{ReturnAddress(), __LINE__};
    asm volatile("" : "+m"(place));
    return place;
  }
};

// The call is the very last instruction: its return address is outside of the function.
[[noreturn, gnu::noinline]] void NeverReturns(uint64_t* address) {
  *address = reinterpret_cast<uint64_t>(__builtin_return_address(0));
  throw 1;
}
constexpr int kLastCallLine = __LINE__ + 1;
[[gnu::noinline]] void EndsInACall(uint64_t* address) { NeverReturns(address); }

}  // namespace known

namespace {

std::string Self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

// This process's own map, as a collector tells it.
void MapSelf(CallSites* sites, uint32_t process, const std::string& build_id = "",
             const std::string& instead_of_self = "") {
  std::ifstream maps("/proc/self/maps");
  const std::string self = Self();
  for (std::string line; std::getline(maps, line);) {
    std::istringstream in(line);
    std::string range, permissions, offset, device, inode, path;
    in >> range >> permissions >> offset >> device >> inode >> path;
    if (path.empty() || path[0] != '/') continue;
    v1::Module module;
    module.set_process(process);
    module.set_start(std::stoull(range, nullptr, 16));
    module.set_end(std::stoull(range.substr(range.find('-') + 1), nullptr, 16));
    module.set_file_offset(std::stoull(offset, nullptr, 16));
    module.set_path(path == self && !instead_of_self.empty() ? instead_of_self : path);
    if (path == self) module.set_build_id(build_id);
    sites->OnModule(module);
  }
}

// As readelf prints it.
std::string OwnBuildId() {
  FILE* const pipe = popen(("readelf -n " + Self()).c_str(), "r");
  std::string text;
  for (char bytes[512]; pipe != nullptr && fgets(bytes, sizeof bytes, pipe) != nullptr;) {
    text += bytes;
  }
  if (pipe != nullptr) pclose(pipe);
  const std::string label = "Build ID: ";
  const size_t at = text.find(label) + label.size();
  return text.substr(at, text.find('\n', at) - at);
}

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = ::testing::TempDir() + "/call_sites.XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST(CallSites, FindsFunctionFileAndLine) {
  CallSites sites;
  MapSelf(&sites, 3);
  const known::Place place = known::Trainer<int>::Step(1, "");
  const CallSite site = sites.Resolve(3, place.return_address);
  EXPECT_EQ(site.line, place.line);
  EXPECT_TRUE(site.file.ends_with("call_sites_test.cc")) << site.file;
  EXPECT_EQ(site.function, "gordian::analyzer::known::Trainer<int>::Step");
  EXPECT_EQ(site.module, Self());
  EXPECT_EQ(sites.Describe({.process = 3, .address = place.return_address}),
            "call_sites_test.cc:" + std::to_string(place.line) +
                " gordian::analyzer::known::Trainer<int>::Step()");
  // From what was kept.
  EXPECT_EQ(sites.Resolve(3, place.return_address).line, place.line);
  // Another process has no such module.
  EXPECT_EQ(sites.Resolve(4, place.return_address).module, "");
  EXPECT_EQ(sites.Describe({.process = 4, .address = 0x1234}), "0x1234");
  EXPECT_EQ(sites.Describe({.process = 3, .address = 0}), "");
}

TEST(CallSites, ACallThatEndsItsFunctionBelongsToIt) {
  uint64_t address = 0;
  EXPECT_THROW(known::EndsInACall(&address), int);
  CallSites sites;
  MapSelf(&sites, 1);
  const CallSite site = sites.Resolve(1, address);
  EXPECT_EQ(site.line, known::kLastCallLine);
  EXPECT_EQ(site.function, "gordian::analyzer::known::EndsInACall");
}

TEST(CallSites, WithoutDebugInformationTheSymbolIsNamed) {
  TempFolder folder;
  const std::string copy = folder / "train";
  ASSERT_EQ(system(("strip --strip-debug -o " + copy + " " + Self()).c_str()), 0);
  CallSites sites;
  MapSelf(&sites, 1, "", copy);
  const known::Place place = known::Trainer<int>::Step(1, "");
  const CallSite site = sites.Resolve(1, place.return_address);
  EXPECT_EQ(site.line, 0);
  EXPECT_EQ(site.function, "gordian::analyzer::known::Trainer<int>::Step");
  const std::string text = ShortForm(site, place.return_address);
  EXPECT_TRUE(text.starts_with("train+0x")) << text;
  EXPECT_TRUE(text.ends_with(" (gordian::analyzer::known::Trainer<int>::Step)")) << text;
}

TEST(CallSites, WithoutSymbolsTheModuleIsNamed) {
  TempFolder folder;
  const std::string copy = folder / "train";
  ASSERT_EQ(system(("strip --strip-all -o " + copy + " " + Self()).c_str()), 0);
  CallSites sites;
  MapSelf(&sites, 1, "", copy);
  const known::Place place = known::Trainer<int>::Step(1, "");
  const CallSite site = sites.Resolve(1, place.return_address);
  EXPECT_EQ(site.function, "");
  EXPECT_TRUE(ShortForm(site, place.return_address).starts_with("train+0x"));
  EXPECT_EQ(ShortForm(site, place.return_address).find('('), std::string::npos);
}

TEST(CallSites, AFileThatWasReplacedIsNotUsed) {
  const known::Place place = known::Trainer<int>::Step(1, "");
  CallSites sites;
  MapSelf(&sites, 1, "00112233445566778899aabbccddeeff00112233");
  const CallSite site = sites.Resolve(1, place.return_address);
  EXPECT_EQ(site.function, "");
  EXPECT_EQ(site.line, 0);
  EXPECT_EQ(site.module, Self());
  EXPECT_NE(site.offset, 0u);
}

TEST(CallSites, PathsOfWatchedProcessesAreNotTrusted) {
  TempFolder folder;
  const std::string fifo = folder / "fifo", text = folder / "text", deep = folder / "deep";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::ofstream(text) << "this is not ELF";
  std::filesystem::create_directory(deep);
  CallSites sites;
  uint64_t start = 0x10000;
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& path : {fifo, text, deep, std::string("/dev/zero"),
                                  std::string("/no/such/file"), std::string("[vdso]")}) {
    v1::Module module;
    module.set_process(1);
    module.set_start(start);
    module.set_end(start + 0x1000);
    module.set_path(path);
    sites.OnModule(module);
    const CallSite site = sites.Resolve(1, start + 0x10);
    EXPECT_EQ(site.module, path);
    EXPECT_EQ(site.offset, 0x10u) << path;
    start += 0x1000;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  v1::Module upside_down;
  upside_down.set_start(0x2000);
  upside_down.set_end(0x1000);
  upside_down.set_path(text);
  sites.OnModule(upside_down);
}

TEST(CallSites, ALaterMappingReplacesWhatItCovers) {
  CallSites sites;
  auto map = [&sites](uint64_t start, uint64_t end, const std::string& path) {
    v1::Module module;
    module.set_process(1);
    module.set_start(start);
    module.set_end(end);
    module.set_path(path);
    sites.OnModule(module);
  };
  map(0x1000, 0x2000, "/no/old_a");
  map(0x2000, 0x3000, "/no/old_b");
  map(0x1000, 0x3000, "/no/new");
  EXPECT_EQ(sites.Resolve(1, 0x1800).module, "/no/new");
  EXPECT_EQ(sites.Resolve(1, 0x2800).module, "/no/new");
}

v1::Event Told(uint32_t process, uint64_t site, const std::string& function,
               const std::string& file, int line) {
  v1::Event event;
  event.mutable_stacks_taken()->set_process(process);
  v1::SitePlace* const place = event.mutable_stacks_taken()->add_sites();
  place->set_site(site);
  place->set_function(function);
  place->set_file(file);
  place->set_line(line);
  return event;
}

v1::Module ModuleAt(uint32_t process, uint64_t start, const std::string& build_id) {
  v1::Module module;
  module.set_process(process);
  module.set_start(start);
  module.set_end(start + 0x1000);
  module.set_path("/not/on/this/machine/train");
  module.set_build_id(build_id);
  return module;
}

// Processes of the same program share what one node tells, wherever it is mapped.
TEST(CallSites, ANodeTellsWhereTheCallIs) {
  CallSites sites;
  sites.OnModule(ModuleAt(1, 0x10000, "aa"));
  sites.OnModule(ModuleAt(2, 0x50000, "aa"));
  sites.OnModule(ModuleAt(3, 0x10000, "bb"));
  EXPECT_EQ(sites.Describe({.process = 2, .address = 0x50010}), "train+0x10");
  sites.OnEvent(Told(1, 0x10010, "_ZN7Trainer4stepEi", "/job/train.cc", 88));
  EXPECT_EQ(sites.Describe({.process = 1, .address = 0x10010}), "train.cc:88 Trainer::step()");
  EXPECT_EQ(sites.Describe({.process = 2, .address = 0x50010}), "train.cc:88 Trainer::step()");
  EXPECT_EQ(sites.Describe({.process = 3, .address = 0x10010}), "train+0x10") << "another program";
  EXPECT_EQ(sites.Describe({.process = 1, .address = 0x10020}), "train+0x20");
}

TEST(CallSites, WithoutABuildIdANodeTellsOfItsOwnAlone) {
  CallSites sites;
  sites.OnModule(ModuleAt(1, 0x10000, ""));
  sites.OnModule(ModuleAt(kProcessesOfNode + 1, 0x10000, ""));
  sites.OnEvent(Told(1, 0x10010, "", "/job/train.cc", 88));
  EXPECT_EQ(sites.Describe({.process = 1, .address = 0x10010}), "train.cc:88");
  EXPECT_EQ(sites.Describe({.process = kProcessesOfNode + 1, .address = 0x10010}), "train+0x10");
}

// A file of this machine that another one names by its path is not opened.
TEST(CallSites, OfAJobOnNodesOnlyAFileOfTheSameBuildIdIsUsed) {
  const known::Place place = known::Trainer<int>::Step(1, "");
  for (const std::string& build_id : {std::string(), OwnBuildId()}) {
    CallSites sites;
    v1::Event joined;
    joined.mutable_node_joined();
    sites.OnEvent(joined);
    MapSelf(&sites, 1, build_id);
    const CallSite site = sites.Resolve(1, place.return_address);
    EXPECT_EQ(site.module, Self());
    EXPECT_EQ(site.line, build_id.empty() ? 0 : place.line) << build_id;
  }
}

TEST(CallSites, NotedSitesAreResolvedAhead) {
  CallSites sites;
  MapSelf(&sites, 1);
  const known::Place place = known::Trainer<int>::Step(1, "");
  sites.Note(1, place.return_address);
  sites.ResolveNoted(std::chrono::milliseconds(10'000));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(sites.Resolve(1, place.return_address).line, place.line);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(5));
}

TEST(PythonSites, NameTheCallOfPyTorchThatTheyArePartOf) {
  CallSites sites;
  constexpr uint64_t kSite = ring::kTextSite | 1;
  const auto shown = [&](const std::string& text) {
    sites.OnPythonSite(1, kSite, text);
    return ShortForm(sites.Resolve(1, kSite), kSite);
  };
  EXPECT_EQ(shown("/a/train.py\n88\nTrainer.step\nall_reduce"),
            "train.py:88 Trainer.step() in torch's all_reduce");
  EXPECT_EQ(shown("/a/train.py\n88\nTrainer.step\n"), "train.py:88 Trainer.step()");
  EXPECT_EQ(shown("/a/train.py\n88\nTrainer.step"), "train.py:88 Trainer.step()");
}

TEST(FunctionName, IsWithoutParametersAndReturnType) {
  EXPECT_EQ(ReadableFunctionName("main"), "main");
  EXPECT_EQ(ReadableFunctionName("f"), "f");
  EXPECT_EQ(ReadableFunctionName("_ZN7Trainer4stepEi"), "Trainer::step");
  EXPECT_EQ(ReadableFunctionName("_ZNK7Trainer4stepEi"), "Trainer::step");
  EXPECT_EQ(ReadableFunctionName("_Z1fIiEvT_"), "f<int>");
  EXPECT_EQ(ReadableFunctionName("_ZN12_GLOBAL__N_11fEv"), "(anonymous namespace)::f");
  EXPECT_EQ(ReadableFunctionName("_Znot_really"), "_Znot_really");
  EXPECT_EQ(ReadableFunctionName(nullptr), "");
  EXPECT_EQ(WithoutParameters("void a::b<int (*)(char)>(int) const"), "a::b<int (*)(char)>");
  EXPECT_EQ(WithoutParameters("main::{lambda(int)#1}::operator()(int) const"),
            "main::{lambda(int)#1}::operator()");
  EXPECT_EQ(WithoutParameters("f(int)::{lambda()#2}::operator()() const"),
            "f(int)::{lambda()#2}::operator()");
  EXPECT_EQ(WithoutParameters("A::operator bool() const"), "A::operator bool");
  EXPECT_EQ(WithoutParameters("std::ostream& operator<< <int>(std::ostream&, int)"),
            "operator<< <int>");
  EXPECT_EQ(WithoutParameters("A::operator->() const"), "A::operator->");
  EXPECT_EQ(WithoutParameters("cooperator(int)"), "cooperator");
  EXPECT_EQ(WithoutParameters("(((("), "((((");
  EXPECT_EQ(WithoutParameters(""), "");
}

}  // namespace
}  // namespace gordian::analyzer
