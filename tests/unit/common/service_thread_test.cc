#include "common/service_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

namespace gordian {
namespace {

TEST(ServiceThread, BlocksAllSignalsAndHasItsName) {
  sigset_t inside;
  char name[16] = "";
  std::thread thread = MakeServiceThread("gordian-test", [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &inside);
    pthread_getname_np(pthread_self(), name, sizeof(name));
  });
  thread.join();
  EXPECT_STREQ(name, "gordian-test");
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF}) {
    EXPECT_EQ(sigismember(&inside, signal), 1) << signal;
  }
}

TEST(ServiceThread, LeavesItsMakersSignalsAsTheyWere) {
  sigset_t some, before, after;
  sigemptyset(&some);
  sigaddset(&some, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &some, &before);
  MakeServiceThread("gordian-test", [] {}).join();
  pthread_sigmask(SIG_SETMASK, &before, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) {
    EXPECT_EQ(sigismember(&after, signal), signal == SIGUSR2) << signal;
  }
}

}  // namespace
}  // namespace gordian
