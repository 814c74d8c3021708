// Runs a job that is a library: plugin_host FILE local|deepbind JOB [...]. The host itself knows
// neither NCCL nor CUDA.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int mode = std::strcmp(argv[2], "deepbind") == 0 ? RTLD_DEEPBIND : 0;
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | mode);
  if (plugin == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 7;
  }
  const auto run = reinterpret_cast<int (*)(int, char**)>(dlsym(plugin, "plugin_main"));
  if (run == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 7;
  }
  return run(argc - 2, argv + 2);
}
