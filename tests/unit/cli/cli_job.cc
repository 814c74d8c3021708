// A program with a little CUDA, for the tests of --emulator: its DT_RPATH leads to a folder
// "foreign" beside it, which comes before LD_LIBRARY_PATH.
//   cli_job [--open LIBRARY] [--linger SECONDS]
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  double linger = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--open") == 0) {
      if (dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL) == nullptr) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
      }
    } else if (strcmp(argv[i], "--linger") == 0) {
      linger = atof(argv[i + 1]);
    }
  }
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  if (cudaMalloc(&memory, 1024) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess) {
    fprintf(stderr, "CUDA failed\n");
    return 4;
  }
  usleep(static_cast<useconds_t>(linger * 1e6));
  cudaFree(memory);
  printf("job done\n");
  return 0;
}
