#include "emulator/engine/process/host_threads.h"

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace gordian::emu {
namespace {

struct Start {
  std::string name;
  std::function<void()> body;
};

void* ThreadEntry(void* argument) {
  std::unique_ptr<Start> start(static_cast<Start*>(argument));
  pthread_setname_np(pthread_self(), start->name.c_str());
  start->body();
  return nullptr;
}

}  // namespace

bool StartThread(const char* name, std::function<void()> body) {
  auto start = std::make_unique<Start>(Start{name, std::move(body)});
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, ThreadEntry, start.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return false;
  start.release();
  pthread_detach(thread);
  return true;
}

void HostThread::Run(std::function<void()> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!started_) {
    started_ = StartThread("emu-host", [this] { ThreadMain(); });
    if (!started_) fprintf(stderr, "gordian emulator: cannot start a thread for host functions\n");
  }
  changed_.notify_one();
}

void HostThread::ThreadMain() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !jobs_.empty(); });
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace gordian::emu
