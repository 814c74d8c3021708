// What a thread is for, where the function that it began with tells: threads that PyTorch and gloo
// make for themselves, and that act for the job only when something gordian knows of happens.
//
// A thread never leaves the function that it began with, so its role lasts as long as the thread.
#ifndef GORDIAN_COLLECTOR_PROCESS_THREAD_ROLES_H_
#define GORDIAN_COLLECTOR_PROCESS_THREAD_ROLES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/process/proc_reader.h"
#include "collector/stacks/python_stack.h"

namespace gordian::collector {

enum class ThreadRole : uint8_t {
  kUnknown,
  kServes,      // reads sockets for a library, and calls nothing for the job: gloo's loop, the
                // daemons of a TCPStore
  kOperations,  // carries gloo's operations out, one by one; acts for the job when one has ended
  kWatches,  // asks NCCL and CUDA how far operations are; acts for the job when one has ended, and
             // ends the job when a time limit has passed: ProcessGroupNCCL's watchdog
};

// True of tqdm's monitor, a thread of Python, in its sleep of 10 s between looks at progress bars: it
// holds no lock then, and calls nothing for the job when it wakes. `frames`: innermost first.
bool IsIdleMonitor(const std::vector<PythonFrame>& frames);

// Remembers the symbols of files. Not thread-safe.
class ThreadRoles {
 public:
  // Of a sleeping thread, by the outermost code on its stack that is no plumbing. `code`: all
  // mappings of the process that can be executed, by start.
  ThreadRole Of(pid_t pid, uint64_t stack_pointer, const std::vector<ExecutableMapping>& code);

  // A range of addresses in a file's own numbers, and what a thread is that began there.
  struct Range {
    uint64_t begin = 0, end = 0;
    ThreadRole role = ThreadRole::kUnknown;
  };

 private:
  struct Segment {
    uint64_t offset, address, bytes;
  };
  struct File {
    std::vector<Range> ranges;
    std::vector<Segment> segments;
  };
  const File& FileOf(const std::string& path);

  std::map<std::string, File> files_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PROCESS_THREAD_ROLES_H_
