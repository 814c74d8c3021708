// Built twice, as a file that is named like gloo's and as one that is not: functions that threads
// begin in, under the linkage names of gloo's and PyTorch's.
#include <unistd.h>

extern "C" {
using Body = void (*)();
// Each calls what it is given and does not end with that call.
void* _ZN4gloo9transport3tcp4Loop3runEv(void* body) {
  reinterpret_cast<Body>(body)();
  usleep(1);
  return nullptr;
}
void* _ZN4c10d16ProcessGroupGloo7runLoopEi(void* body) {
  reinterpret_cast<Body>(body)();
  usleep(1);
  return nullptr;
}
void* _ZN4c10d16ProcessGroupNCCL8Watchdog3runEv(void* body) {
  reinterpret_cast<Body>(body)();
  usleep(1);
  return nullptr;
}
// Not exported, as in PyTorch.
__attribute__((visibility("hidden"))) void* _ZN4c10d6detail16LibUVStoreDaemon3runEv(void* body) {
  // In its frame: a number that is an address of another file's code, and no call's.
  void* volatile number = body;
  reinterpret_cast<Body>(number)();
  usleep(1);
  return nullptr;
}
void* (*store_daemon)(void*) = _ZN4c10d6detail16LibUVStoreDaemon3runEv;
void* another_function(void* body) {
  reinterpret_cast<Body>(body)();
  usleep(1);
  return nullptr;
}
}
