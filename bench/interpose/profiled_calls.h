// What NCCL 2.28 tells a profiler plugin of one collective call: six calls of the plugin's table,
// version 5 (after NCCL's plugins/profiler/example/nccl/profiler_v5.h).
#ifndef GORDIAN_BENCH_INTERPOSE_PROFILED_CALLS_H_
#define GORDIAN_BENCH_INTERPOSE_PROFILED_CALLS_H_

#include <cstddef>
#include <cstdint>

namespace gordian::bench {

class ProfiledCalls {
 public:
  // `table`: the plugin's ncclProfiler_v5.
  explicit ProfiledCalls(const void* table) : table_(*static_cast<const Table*>(table)) {
    table_.init(&context_, 1, &mask_, nullptr, 1, 2, 0, nullptr);
  }
  int mask() const { return mask_; }

  void AllReduce(void* stream, size_t count) const {
    void *group = nullptr, *call = nullptr, *launch = nullptr;
    Event event = {};
    event.type = 0x100;
    event.group = {false, 1};
    table_.start(context_, &group, &event);
    event = {};
    event.type = 0x200;
    event.parent = group;
    event.call = {"AllReduce", count, "ncclFloat32", 0, stream, false};
    table_.start(context_, &call, &event);
    table_.stop(call);
    event = {};
    event.type = 0x800;
    event.parent = group;
    event.launch = {stream};
    table_.start(context_, &launch, &event);
    table_.stop(launch);
    table_.stop(group);
  }

 private:
  struct Event {
    uint64_t type;
    void* parent;
    int rank;
    union {
      struct {
        bool captured;
        int depth;
      } group;
      struct {
        const char* func;
        size_t count;
        const char* datatype;
        int root;
        void* stream;
        bool captured;
      } call;
      struct {
        void* stream;
      } launch;
      char longest[88];
    };
  };
  struct Table {
    const char* name;
    int (*init)(void**, uint64_t, int*, const char*, int, int, int, void*);
    int (*start)(void*, void**, Event*);
    int (*stop)(void*);
  };

  const Table& table_;
  void* context_ = nullptr;
  int mask_ = 0;
};

}  // namespace gordian::bench

#endif  // GORDIAN_BENCH_INTERPOSE_PROFILED_CALLS_H_
