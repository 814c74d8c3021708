// State of each thread that outlives the thread's other thread_local objects.
//
// exit() destroys the main thread's thread_local objects before it calls the functions that the
// program has given to atexit, and those may call CUDA and NCCL.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_OF_THIS_THREAD_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_OF_THIS_THREAD_H_

#include <pthread.h>

namespace gordian::emu {

// This thread's T, made by its first call. The thread destroys it after its thread_local objects;
// a thread in which exit() is called never does.
template <typename T>
T& OfThisThread() {
  thread_local T* mine = nullptr;
  if (mine == nullptr) {
    static const pthread_key_t key = [] {
      pthread_key_t made;
      pthread_key_create(&made, [](void* state) {
        mine = nullptr;
        delete static_cast<T*>(state);
      });
      return made;
    }();
    mine = new T;
    pthread_setspecific(key, mine);
  }
  return *mine;
}

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_OF_THIS_THREAD_H_
