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
void* another_function(void* body) {
  reinterpret_cast<Body>(body)();
  usleep(1);
  return nullptr;
}
}
