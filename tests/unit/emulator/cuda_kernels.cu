// What nvcc makes of a program, as it is: kernels, device variables, managed variables. Kernels
// have no body on the emulator, so only what the host does is checked.
#include <cstdio>

__device__ int counter = 42;
__device__ int cleared[4];
__constant__ float table[16] = {1, 2, 3};
__managed__ int managed = 7;

__global__ void Add(float* to, const float* from, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += from[i] * table[i & 15] + counter + cleared[0];
}

template <typename T>
__global__ void Fill(T* to, T value) {
  to[threadIdx.x] = value + managed;
}

int failures = 0;

#define CHECK(condition)                             \
  do {                                               \
    if (!(condition)) {                              \
      ++failures;                                    \
      printf("line %d: %s\n", __LINE__, #condition); \
    }                                                \
  } while (false)

int main() {
  float* a = nullptr;
  float* b = nullptr;
  CHECK(cudaMalloc(&a, 1024) == cudaSuccess);
  CHECK(cudaMalloc(&b, 1024) == cudaSuccess);
  Add<<<2, 128>>>(a, b, 256);
  CHECK(cudaGetLastError() == cudaSuccess);
  Fill<float><<<1, 32>>>(a, 1.0f);
  CHECK(cudaGetLastError() == cudaSuccess);
  Fill<float><<<1, 2048>>>(a, 1.0f);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue ||
        cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(managed == 7);
  int value = 0;
  CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof(value)) == cudaSuccess && value == 42);
  value = 9;
  CHECK(cudaMemcpyToSymbol(counter, &value, sizeof(value)) == cudaSuccess);
  value = 0;
  CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof(value)) == cudaSuccess && value == 9);
  CHECK(cudaMemcpyFromSymbol(&value, cleared, sizeof(value)) == cudaSuccess && value == 0);
  float third = 0;
  CHECK(cudaMemcpyFromSymbol(&third, table, sizeof(third), 2 * sizeof(float)) == cudaSuccess &&
        third == 3);
  size_t size = 0;
  void* address = nullptr;
  CHECK(cudaGetSymbolSize(&size, table) == cudaSuccess && size == sizeof(table));
  CHECK(cudaGetSymbolAddress(&address, table) == cudaSuccess && address != nullptr);
  CHECK(cudaGetSymbolAddress(&address, a) == cudaErrorInvalidSymbol);
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, Add) == cudaSuccess);
  printf(failures == 0 ? "passed\n" : "failed\n");
  return failures == 0 ? 0 : 1;
}
