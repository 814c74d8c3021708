// A thread of autograd that issues an operation in C++, as DistributedDataParallel's reducer does.
#include <pthread.h>
#include <stddef.h>

namespace {

using AllReduce = int(const void*, void*, size_t, int, int, void*, void*);

struct Issue {
  AllReduce* all_reduce;
  void* memory;
  size_t count;
  void* comm;
  void* stream;
  int result;
};

void* Run(void* given) {
  pthread_setname_np(pthread_self(), "pt_autograd_0");  // as PyTorch's engine
  auto* const issue = static_cast<Issue*>(given);
  constexpr int kFloat = 7, kSum = 0;
  issue->result = issue->all_reduce(issue->memory, issue->memory, issue->count, kFloat, kSum,
                                    issue->comm, issue->stream);
  return nullptr;
}

}  // namespace

extern "C" int engine_all_reduce(AllReduce* all_reduce, void* memory, size_t count, void* comm,
                                 void* stream) {
  Issue issue = {all_reduce, memory, count, comm, stream, -1};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Run, &issue) != 0) return -1;
  pthread_join(thread, nullptr);
  return issue.result;
}
