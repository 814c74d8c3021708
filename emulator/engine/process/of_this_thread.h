// State of each thread that outlives the thread's other thread_local objects.
//
// exit() destroys the main thread's thread_local objects before it calls the functions that the
// program has given to atexit, and those may call CUDA and NCCL.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_OF_THIS_THREAD_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_OF_THIS_THREAD_H_

#include <pthread.h>

namespace gordian::emu {

// The key whose destructor deletes a thread's T. dlclose() and exit() give the key back: a thread
// that ends later must not call into a library that is gone.
template <typename T>
class ThreadEndKey {
 public:
  explicit ThreadEndKey(void (*at_thread_end)(void*)) { pthread_key_create(&key_, at_thread_end); }
  ~ThreadEndKey() { pthread_key_delete(key_); }
  ThreadEndKey(const ThreadEndKey&) = delete;
  ThreadEndKey& operator=(const ThreadEndKey&) = delete;

  void Set(T* state) { pthread_setspecific(key_, state); }

 private:
  pthread_key_t key_;
};

// This thread's T, made by its first call. The thread destroys it after its thread_local objects;
// a thread in which exit() is called never does, nor one that outlives the library.
template <typename T>
T& OfThisThread() {
  thread_local T* mine = nullptr;
  if (mine == nullptr) {
    static ThreadEndKey<T> key([](void* state) {
      mine = nullptr;
      delete static_cast<T*>(state);
    });
    mine = new T;
    key.Set(mine);
  }
  return *mine;
}

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_OF_THIS_THREAD_H_
