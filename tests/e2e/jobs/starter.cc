// Calls NCCL once and then leaves its place to another process or image, as wrappers of ranks do:
//   starter fork COMMAND...   the child becomes COMMAND, the parent exits with code 0
//   starter exec COMMAND...   this process becomes COMMAND
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  int version = 0;
  if (argc < 3 || ncclGetVersion(&version) != ncclSuccess) return 7;
  if (std::strcmp(argv[1], "fork") == 0 && fork() != 0) return 0;
  execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 7;
}
