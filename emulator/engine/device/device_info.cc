#include "emulator/engine/device/device_info.h"

#include <cstdio>
#include <cstring>

namespace gordian::emu {
namespace {

struct AttributeRow {
  int first;
  int last;
  int value;
};

// Ranges share a value. What is not listed and is below kAttributes is 0: not supported.
constexpr AttributeRow kRows[] = {
    {1, 3, 1024},           // threads per block, block x, y
    {4, 4, 64},             // block z
    {5, 5, 2147483647},     // grid x
    {6, 7, 65535},          // grid y, z
    {8, 8, 49152},          // shared memory per block
    {9, 9, 65536},          // constant memory
    {10, 10, 32},           // warp size
    {11, 11, 2147483647},   // pitch
    {12, 12, 65536},        // registers per block
    {13, 13, 1980000},      // clock, kHz
    {14, 14, 512},          // texture alignment
    {15, 15, 1},            // copies overlap kernels
    {19, 19, 1},            // maps host memory
    {21, 22, 131072},       // 1D texture, 2D texture width
    {23, 23, 65536},        // 2D texture height
    {24, 26, 16384},        // 3D texture
    {27, 28, 32768},        // layered 2D texture
    {29, 29, 2048},         // its layers
    {30, 30, 512},          // surface alignment
    {31, 31, 1},            // concurrent kernels
    {32, 32, 1},            // ECC
    {36, 36, 3201000},      // memory clock, kHz
    {37, 37, 6016},         // memory bus, bits
    {38, 38, 62914560},     // L2 cache
    {39, 39, 2048},         // threads per SM
    {40, 40, 3},            // copy engines
    {41, 41, 1},            // unified addressing
    {42, 42, 32768},        // layered 1D texture
    {43, 43, 2048},         // its layers
    {44, 44, 1},            // 2D gather
    {45, 46, 32768},        //
    {47, 48, 8192},         // 3D texture, alternate
    {49, 49, 32768},        //
    {51, 51, 32},           // texture pitch alignment
    {52, 53, 32768},        // cube maps
    {54, 54, 2046},         // layers
    {55, 55, 32768},        // surfaces
    {56, 56, 131072},       //
    {57, 57, 65536},        //
    {58, 60, 16384},        //
    {61, 61, 32768},        //
    {62, 62, 2048},         //
    {63, 64, 32768},        //
    {65, 65, 2048},         //
    {66, 67, 32768},        //
    {68, 68, 2046},         //
    {69, 69, 268435456},    // linear 1D texture
    {70, 70, 131072},       //
    {71, 71, 65000},        //
    {72, 72, 2097120},      //
    {73, 74, 32768},        //
    {75, 75, 9},            // compute capability
    {77, 77, 32768},        //
    {78, 80, 1},            // stream priorities, L1 caches
    {81, 81, 233472},       // shared memory per SM
    {82, 82, 65536},        // registers per SM
    {83, 83, 1},            // managed memory
    {86, 86, 0},            // native atomics between host and device
    {87, 87, 2},            // single to double precision ratio
    {89, 91, 1},            // concurrent managed access, preemption, host pointers
    {92, 95, 1},            // stream memory operations, cooperative launch
    {97, 97, 232448},       // opt-in shared memory per block
    {98, 99, 1},            // flush of remote writes, host registration
    {102, 103, 1},          // virtual memory, handles by file descriptor
    {106, 106, 32},         // blocks per SM
    {108, 108, 39321600},   // persisting L2
    {109, 109, 134217728},  // access policy window
    {111, 111, 1024},       // reserved shared memory per block
    {113, 113, 1},          // read-only host registration
    {115, 115, 1},          // memory pools
    {119, 119, 1},          // their handles: file descriptors
    {120, 120, 1},          // cluster launch
    {122, 123, 1},          // 64-bit stream memory operations, wait for NOR
    {125, 125, 1},          // interprocess events
    {126, 126, 4},          // memory sync domains
    {129, 129, 1},          // unified function pointers
    {131, 131, -1},         // NUMA node
    {134, 134, 0},          // host NUMA node
};
constexpr int kAttributes = 149;

constexpr StatusText kTexts[] = {
#define GORDIAN_EMU_STATUS(code, runtime_name, driver_name, text) \
  {code, runtime_name, driver_name, text},
#include "emulator/engine/status_texts.def"
#undef GORDIAN_EMU_STATUS
};

}  // namespace

bool DeviceAttribute(const DeviceShape& shape, int attribute, int* value) {
  if (attribute < 1 || attribute >= kAttributes) return false;
  *value = 0;
  if (attribute == 16) *value = shape.sms;
  if (attribute == 33) *value = kPciFirstBus + shape.physical;
  for (const AttributeRow& row : kRows) {
    if (attribute >= row.first && attribute <= row.last) *value = row.value;
  }
  return true;
}

void DeviceUuid(int physical, char uuid[16]) {
  memcpy(uuid, "gordian-emulator", 16);
  uuid[0] = static_cast<char>('g' ^ physical);  // abbreviated, it still names one device
}

void PciBusId(int physical, char* text, size_t bytes) {
  snprintf(text, bytes, "0000:%02X:00.0", kPciFirstBus + physical);
}

const StatusText* FindStatusText(int code) {
  for (const StatusText& text : kTexts) {
    if (text.code == code) return &text;
  }
  return nullptr;
}

}  // namespace gordian::emu
