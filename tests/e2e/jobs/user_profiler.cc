// A user's own NCCL profiler plugin, versions 5 and 7: counts what it is told into
// $USER_PROFILER_OUT.PID, and holds NCCL to its word: handles come back as they were given, an
// event's parent is a handle of ours, and nothing comes that this plugin's mask does not imply.
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

enum : uint64_t { kGroup = 1, kColl = 2, kGroupApi = 0x100, kCollApi = 0x200 };
constexpr uint64_t kMagic = 0x75736572;

struct Context {
  uint64_t magic = kMagic;
};
struct Handle {
  uint64_t magic = kMagic;
  uint64_t type = 0;
};
std::atomic<int> inits, finals, groups, calls, colls, stops, states, unasked, broken;
std::atomic<uint64_t> tags;  // version 7: the sum of what the program gave

struct Event {
  uint64_t type;
  Handle* parent;
  int rank;
  union {
    struct {
      uint64_t number;
      const char* func;
      const void* send;
      void* recv;
      size_t count;
      int root;
      const char* datatype;
      uint8_t channels, warps;
      const char *algo, *proto;
      Handle* parent_group;
      const char* kernel;  // version 7, as are the next two
      bool symmetric;
      uint64_t tag;
    } coll;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool captured;
      uint64_t tag;  // version 7
    } coll_api;
    char longest[112];  // version 7; 88 before
  };
};

void Expect(bool holds) { broken += holds ? 0 : 1; }

// Anew each time: ranks of the jobs end without destructors.
void Tell() {
  const char* path = std::getenv("USER_PROFILER_OUT");
  if (path == nullptr) return;
  std::FILE* file = std::fopen((std::string(path) + "." + std::to_string(getpid())).c_str(), "w");
  if (file == nullptr) return;
  std::fprintf(file,
               "init %d final %d group %d call %d coll %d stop %d state %d unasked %d broken %d "
               "tags %lu\n",
               inits.load(), finals.load(), groups.load(), calls.load(), colls.load(), stops.load(),
               states.load(), unasked.load(), broken.load(), tags.load());
  std::fclose(file);
}

int Init(void** context, uint64_t, int* mask, const char*, int nodes, int ranks, int rank,
         void* log) {
  ++inits;
  Expect(nodes == 1 && ranks >= 1 && rank >= 0 && rank < ranks && log != nullptr);
  *context = new Context;
  *mask = kCollApi | kColl;
  Tell();
  return 0;
}

int Start(void* context, void** handle, Event* event) {
  Expect(static_cast<Context*>(context)->magic == kMagic);
  switch (event->type) {
    case kGroupApi:
      ++groups;
      break;
    case kCollApi:
      ++calls;
      Expect(event->parent != nullptr && event->parent->magic == kMagic &&
             event->parent->type == kGroupApi);
      break;
    case kGroup:
      break;
    case kColl:
      ++colls;
      Expect(event->parent != nullptr && event->parent->magic == kMagic &&
             event->parent->type == kCollApi);
      Expect(event->coll.parent_group != nullptr && event->coll.parent_group->magic == kMagic &&
             event->coll.parent_group->type == kGroup);
      break;
    default:
      ++unasked;
  }
  auto* made = new Handle;  // never freed: parents are looked at after they were stopped
  made->type = event->type;
  *handle = made;
  Tell();
  return 0;
}

int StartV7(void* context, void** handle, Event* event) {
  if (event->type == kCollApi) tags += event->coll_api.tag;
  if (event->type == kColl) tags += event->coll.tag;
  return Start(context, handle, event);
}

int Stop(void* handle) {
  ++stops;
  Expect(static_cast<Handle*>(handle)->magic == kMagic);
  Tell();
  return 0;
}

int Record(void* handle, int, void*) {
  ++states;
  Expect(static_cast<Handle*>(handle)->magic == kMagic &&
         static_cast<Handle*>(handle)->type == kGroupApi);
  Tell();
  return 0;
}

int Finalize(void* context) {
  ++finals;
  Expect(static_cast<Context*>(context)->magic == kMagic);
  Tell();
  return 0;
}

}  // namespace

struct Table {
  const char* name;
  int (*init)(void**, uint64_t, int*, const char*, int, int, int, void*);
  int (*start)(void*, void**, Event*);
  int (*stop)(void*);
  int (*record)(void*, int, void*);
  int (*finalize)(void*);
};
extern "C" {
__attribute__((visibility("default"))) extern const Table ncclProfiler_v5 = {
    "user", Init, Start, Stop, Record, Finalize};
__attribute__((visibility("default"))) extern const Table ncclProfiler_v7 = {
    "user", Init, StartV7, Stop, Record, Finalize};
}
