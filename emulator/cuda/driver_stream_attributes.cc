// Stores and returns attributes of streams. Only the priority has an effect on an emulated device.
#include <cstring>

#include "emulator/cuda/driver_common.h"
#include "emulator/engine/device/device_info.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

bool IsStreamAttribute(CUstreamAttrID attribute) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return true;
    default:
      return false;
  }
}

int DeviceValue(const void* stream, int attribute) {
  StreamInfo info;
  if (TheEngine().DescribeStream(const_cast<void*>(stream), &info) != kSuccess) return 0;
  const DeviceShape shape{TheEngine().SmCount(), TheEngine().PhysicalDevice(info.device)};
  int value = 0;
  DeviceAttribute(shape, attribute, &value);
  return value;
}

bool IsValid(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue& value) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: {
      const CUaccessPolicyWindow& window = value.accessPolicyWindow;
      const int most = DeviceValue(stream, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
      return window.num_bytes <= static_cast<size_t>(most) && window.hitRatio >= 0 &&
             window.hitRatio <= 1 && window.hitProp >= CU_ACCESS_PROPERTY_NORMAL &&
             window.hitProp <= CU_ACCESS_PROPERTY_PERSISTING &&
             (window.missProp == CU_ACCESS_PROPERTY_NORMAL ||
              window.missProp == CU_ACCESS_PROPERTY_STREAMING);
    }
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      return value.syncPolicy >= CU_SYNC_POLICY_AUTO &&
             value.syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      return value.priority >= kGreatestPriority && value.priority <= 0;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: {
      const int domains = DeviceValue(stream, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
      return value.memSyncDomainMap.default_ < domains && value.memSyncDomainMap.remote < domains;
    }
    default:
      return value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT ||
             value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  }
}

void Read(const StreamAttributes& from, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  memset(value, 0, sizeof(*value));
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      value->accessPolicyWindow = {from.window.base, from.window.bytes, from.window.hit_ratio,
                                   static_cast<CUaccessProperty>(from.window.hit),
                                   static_cast<CUaccessProperty>(from.window.miss)};
      break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value->syncPolicy = static_cast<CUsynchronizationPolicy>(from.sync_policy);
      break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value->priority = from.priority;
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value->memSyncDomainMap = {from.domain_of_default, from.domain_of_remote};
      break;
    default:
      value->memSyncDomain = static_cast<CUlaunchMemSyncDomain>(from.domain);
      break;
  }
}

void Write(const CUstreamAttrValue& value, CUstreamAttrID attribute, StreamAttributes* to) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: {
      const CUaccessPolicyWindow& window = value.accessPolicyWindow;
      to->window = {window.base_ptr, window.num_bytes, window.hitRatio,
                    static_cast<int>(window.hitProp), static_cast<int>(window.missProp)};
      break;
    }
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      to->sync_policy = value.syncPolicy;
      break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      to->priority = value.priority;
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      to->domain_of_default = value.memSyncDomainMap.default_;
      to->domain_of_remote = value.memSyncDomainMap.remote;
      break;
    default:
      to->domain = value.memSyncDomain;
      break;
  }
}

}  // namespace

extern "C" {

CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (value == nullptr || !IsStreamAttribute(attribute)) return CUDA_ERROR_INVALID_VALUE;
  return Result(TheEngine().UpdateStream(
      stream, [&](StreamAttributes* attributes) { Read(*attributes, attribute, value); }));
}

CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute,
                              const CUstreamAttrValue* value) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  StreamInfo info;
  GORDIAN_EMU_CHECK(Result(TheEngine().DescribeStream(stream, &info)));
  if (value == nullptr || !IsStreamAttribute(attribute) || !IsValid(stream, attribute, *value)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Result(TheEngine().UpdateStream(
      stream, [&](StreamAttributes* attributes) { Write(*value, attribute, attributes); }));
}

// Only between streams of one device: other devices have other contexts.
CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  GORDIAN_EMU_CHECK(CheckStream(to));
  GORDIAN_EMU_CHECK(CheckStream(from));
  StreamInfo infos[2];
  GORDIAN_EMU_CHECK(Result(TheEngine().DescribeStream(to, &infos[0])));
  GORDIAN_EMU_CHECK(Result(TheEngine().DescribeStream(from, &infos[1])));
  if (infos[0].device != infos[1].device) return CUDA_ERROR_INVALID_VALUE;
  StreamAttributes copied;
  GORDIAN_EMU_CHECK(Result(TheEngine().UpdateStream(
      from, [&copied](StreamAttributes* attributes) { copied = *attributes; })));
  return Result(TheEngine().UpdateStream(
      to, [&copied](StreamAttributes* attributes) { *attributes = copied; }));
}

CUresult cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                   const CUstreamAttrValue* value) {
  return cuStreamSetAttribute(PerThread(stream), attribute, value);
}
CUresult cuStreamCopyAttributes_ptsz(CUstream to, CUstream from) {
  return cuStreamCopyAttributes(PerThread(to), PerThread(from));
}

}  // extern "C"
