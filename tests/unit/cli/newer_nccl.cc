// A libnccl.so.2 of tomorrow: it has a function that no table of today can know.
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int ncclGetVersion(int* version) {
  *version = 29900;
  return 0;
}
EXPORT int ncclAllReduce() { return 0; }
EXPORT int ncclTomorrow() { return 0; }
EXPORT int pncclTomorrow() { return 0; }
EXPORT int helper_of_nccl() { return 0; }
