#include "emulator/nccl/api/config.h"

#include <strings.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "emulator/nccl/api/error.h"

namespace gordian::emu::nccl {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;
constexpr int kMaxChannels = 64;
constexpr int kMaxClusterSize = 8;

// Copies `config` into the newest layout; fields that an older header lacks are undefined.
ncclResult_t Widen(const ncclConfig_t& config, ncclConfig_t* wide) {
  *wide = NCCL_CONFIG_INITIALIZER;
  // The first field holds the size of the caller's structure; reads nothing behind it.
  size_t size = config.size;
  if (size < offsetof(ncclConfig_t, blocking)) {
    return Fail(ncclInvalidArgument,
                "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  }
  if (config.magic != kConfigMagic) {
    return Fail(ncclInvalidArgument,
                "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  }
  std::memcpy(wide, &config, std::min(size, sizeof(*wide)));
  return ncclSuccess;
}

ncclResult_t CheckRange(int value, int least, int most, const char* field) {
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= least && value <= most)) return ncclSuccess;
  return Fail(ncclInvalidArgument, "Invalid config %s attribute value %d", field, value);
}

ncclResult_t CheckFields(const ncclConfig_t& config) {
  const ncclResult_t results[] = {
      CheckRange(config.blocking, 0, 1, "blocking"),
      CheckRange(config.cgaClusterSize, 0, kMaxClusterSize, "cgaClusterSize"),
      CheckRange(config.minCTAs, 1, INT_MAX, "minCTAs"),
      CheckRange(config.maxCTAs, 1, INT_MAX, "maxCTAs"),
      CheckRange(config.splitShare, 0, 1, "splitShare"),
      CheckRange(config.collnetEnable, 0, 1, "collnetEnable"),
      CheckRange(config.CTAPolicy, NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_ZERO, "CTAPolicy"),
      CheckRange(config.shrinkShare, 0, 1, "shrinkShare"),
      CheckRange(config.nvlsCTAs, 1, INT_MAX, "nvlsCTAs"),
      CheckRange(config.nChannelsPerNetPeer, 1, kMaxChannels, "nChannelsPerNetPeer"),
      CheckRange(config.nvlinkCentricSched, 0, 1, "nvlinkCentricSched"),
  };
  for (ncclResult_t result : results) {
    if (result != ncclSuccess) return result;
  }
  if (config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      config.minCTAs > config.maxCTAs) {
    return Fail(ncclInvalidArgument, "Invalid config min/max channels attribute value %d/%d",
                config.minCTAs, config.maxCTAs);
  }
  // The only network that every machine has; the emulated job needs none.
  if (config.netName != NCCL_CONFIG_UNDEF_PTR && strcasecmp(config.netName, "Socket") != 0) {
    return Fail(ncclInvalidUsage, "Failed to initialize any NET plugin : there is no network '%s'",
                config.netName);
  }
  return ncclSuccess;
}

// Returns the variable's value if it is a number in [least, most].
bool FromEnvironment(const char* variable, int least, int most, int* value) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return false;
  char* end = nullptr;
  long number = std::strtol(text, &end, 0);
  if (*end != '\0' || number < least || number > most) return false;
  *value = static_cast<int>(number);
  return true;
}

}  // namespace

ncclResult_t ReadConfig(const ncclConfig_t* config, CommConfig* resolved) {
  if (config != nullptr) {
    ncclConfig_t wide;
    ncclResult_t result = Widen(*config, &wide);
    if (result == ncclSuccess) result = CheckFields(wide);
    if (result != ncclSuccess) return result;
    if (wide.blocking != NCCL_CONFIG_UNDEF_INT) resolved->blocking = wide.blocking != 0;
    if (wide.minCTAs != NCCL_CONFIG_UNDEF_INT) resolved->min_ctas = wide.minCTAs;
    if (wide.maxCTAs != NCCL_CONFIG_UNDEF_INT) resolved->max_ctas = wide.maxCTAs;
    if (wide.commName != NCCL_CONFIG_UNDEF_PTR) resolved->name = wide.commName;
  }
  int value = 0;
  if (FromEnvironment("NCCL_COMM_BLOCKING", 0, 1, &value)) resolved->blocking = value != 0;
  if (FromEnvironment("NCCL_MIN_CTAS", 1, kMaxChannels, &value)) resolved->min_ctas = value;
  if (FromEnvironment("NCCL_MAX_CTAS", 1, kMaxChannels, &value)) resolved->max_ctas = value;
  resolved->max_ctas = std::max(resolved->max_ctas, resolved->min_ctas);
  return ncclSuccess;
}

}  // namespace gordian::emu::nccl
