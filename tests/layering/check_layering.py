#!/usr/bin/env python3
"""Holds the sources against the folder rules of docs/architecture.md.

  check_layering.py SOURCE_ROOT

Every #include and every CMake dependency of a folder must be one that its row allows.
"""

import os
import re
import sys

# folder -> (project folders it may include, system headers it must not include, words that its
# CMakeLists.txt must not contain)
HEAVY = r"google/protobuf|grpc|spdlog|boost/|nlohmann|CLI/|zstd|cuda_runtime_api"
RULES = {
    "proto/ring": (["proto/ring/"], r"^(?!stdint\.h$)", []),
    "common": (["common/", "proto/", "gordian/v1/"], r"grpc|boost/|nlohmann|CLI/|cuda", ["GRPC", "grpc"]),
    "interpose": (["interpose/", "proto/ring/", "runtime/include/"],
                  r"google/protobuf|grpc|spdlog|boost/|nlohmann|CLI/|zstd|^(string|vector|map|memory|thread|mutex|iostream)$",
                  ["gordian_sanitize", "grpc", "protobuf", "spdlog", "Boost", "CUDA::cudart", "CUDA::cudart_static", "gordian::emu_cudart"]),
    "collector": (["collector/", "common/", "proto/", "gordian/v1/"], r"boost/|CLI/|cuda", ["gordian::interpose"]),
    "analyzer/model": (["analyzer/model/", "proto/ring/meaning.h", "proto/ring/polled_comm.h", "proto/ring/record.h",
                        "proto/ring/state_block.h", "proto/ring/tagged_number.h"],
                       r"google/protobuf|grpc|spdlog|nlohmann|CLI/|zstd|cuda"
                       r"|^(thread|mutex|chrono|fstream|iostream|filesystem|condition_variable|future|random)$"
                       r"|^(unistd|time|stdio|fcntl|pthread|sys/.*)\.h$|^(ctime|cstdio)$",
                       ["grpc", "protobuf", "spdlog", "gordian::common", "gordian::proto", "Threads"]),
    "analyzer/explore": (["analyzer/explore/"],
                         HEAVY + r"|^(thread|mutex|chrono|fstream|iostream|filesystem|condition_variable|future|random)$"
                         r"|^(unistd|time|stdio|fcntl|pthread|sys/.*)\.h$|^(ctime|cstdio)$",
                         ["grpc", "protobuf", "spdlog", "gordian::common", "gordian::proto", "Threads"]),
    "runtime/core": (["runtime/core/"], HEAVY + r"|^(thread|mutex|vector|string|map|chrono|iostream)$", []),
    "runtime/include": (["gordian/runtime"], r"^(?!std(int|def)\.h$)", []),
    "runtime/net": (["runtime/net/", "common/service_thread.h"], HEAVY, []),
    "runtime/cpu": (["runtime/core/", "runtime/cpu/", "runtime/net/", "runtime/include/", "common/service_thread.h"],
                    HEAVY + "|^ucp/", []),
    "runtime/api": (["runtime/api/", "runtime/cpu/", "runtime/core/", "runtime/net/", "runtime/include/"], HEAVY + "|^ucp/", []),
    "runtime/cuda": (["runtime/core/", "runtime/cuda/", "common/status.h", "common/service_thread.h"],
                     r"google/protobuf|grpc|spdlog|boost/|nlohmann|CLI/|zstd|nccl", ["grpc", "protobuf", "spdlog", "nccl"]),
    # The rooms of runtime/cuda, in their order: each may include those above it.
    "runtime/cuda/driver": (["runtime/cuda/driver/", "common/status.h"], r"^cuda_fp", []),
    "runtime/cuda/protocol": (["runtime/core/", "runtime/cuda/protocol/"], r"^cuda(?!_(fp16|bf16)\.h$)", []),
    "runtime/cuda/list": (["runtime/cuda/driver/", "runtime/cuda/protocol/", "runtime/cuda/list/"], r"^cuda_fp", []),
    "runtime/cuda/worker": (["runtime/core/", "runtime/cuda/driver/", "runtime/cuda/protocol/", "runtime/cuda/list/",
                             "runtime/cuda/worker/", "common/status.h", "common/service_thread.h"], r"^cuda_fp", []),
    "runtime/cuda_api": (["runtime/cuda_api/", "runtime/cuda/", "runtime/cpu/", "runtime/core/", "runtime/include/",
                          "runtime/api/", "common/status.h", "common/service_thread.h"],
                         r"google/protobuf|grpc|spdlog|boost/|nlohmann|CLI/|zstd|nccl", []),
    "runtime/testing": (["runtime/testing/", "runtime/core/", "runtime/cuda/driver/", "gordian/runtime.h", "common/status.h"],
                        r"google/protobuf|grpc|spdlog|boost/|nlohmann|CLI/|zstd|nccl", []),
    "planner": (["planner/", "analyzer/model/", "runtime/core/"],
                r"google/protobuf|grpc|spdlog|nlohmann|CLI/|zstd|cuda"
                r"|^(thread|mutex|chrono|fstream|iostream|filesystem|condition_variable|future|random)$"
                r"|^(unistd|time|stdio|fcntl|pthread|sys/.*)\.h$|^(ctime|cstdio)$",
                ["grpc", "protobuf", "spdlog", "gordian::common", "gordian::proto", "gordian::analysis", "Threads"]),
    "analyzer/importers": (["analyzer/importers/", "analyzer/model/", "common/", "gordian/v1/"], r"grpc|CLI/|cuda|boost/",
                           ["grpc", "gordian::server", "gordian::collector"]),
    "analyzer": (["analyzer/", "common/", "proto/ring/", "gordian/v1/"], r"CLI/|cuda", ["gordian::collector"]),
    "emulator": (["emulator/"], HEAVY.replace("|cuda_runtime_api", ""),
                 ["gordian_sanitize", "gordian::interpose", "gordian::model", "gordian::common", "grpc", "protobuf"]),
    "simulator": (["simulator/"],
                  r"google/protobuf|grpc|spdlog|boost/|CLI/|zstd|toml|cuda|mpi"
                  r"|^(chrono|fstream|iostream|filesystem|random|cstdio|ctime)$"
                  r"|^(unistd|time|stdio|fcntl|pthread|sys/.*)\.h$",
                  ["grpc", "protobuf", "spdlog", "gordian::common", "gordian::proto", "CLI11", "MPI"]),
    "replayer": (["replayer/", "analyzer/", "common/", "gordian/v1/"], r"grpc|boost/(?!container/)|CLI/|cuda|nccl",
                 ["grpc", "gordian::collector", "gordian::interpose"]),
    "analyzer/access": (["analyzer/access/", "common/"], r"CLI/|cuda|grpc|google/protobuf|nlohmann", ["grpc", "gordian::server"]),
    "analyzer/http": (["analyzer/http/", "common/"], HEAVY, ["grpc", "gordian::server"]),
    "analyzer/metrics": (["analyzer/", "common/"], r"CLI/|cuda|grpc|google/protobuf|boost/",
                         ["grpc", "gordian::server", "gordian::collector", "gordian::web"]),
    "analyzer/web": (["analyzer/", "common/"], r"CLI/|cuda|grpc|google/protobuf", ["grpc", "gordian::server", "gordian::collector"]),
    "analyzer/incidents": (["analyzer/", "common/"], r"CLI/|cuda|grpc|google/protobuf",
                           ["grpc", "gordian::server", "gordian::collector", "gordian::web"]),
    "dashboard": (["dashboard/", "analyzer/web/"], HEAVY, ["grpc", "gordian::server"]),
    "cli": (["cli/", "dashboard/", "runtime/include/", "replayer/", "planner/", "simulator/", "analyzer/", "collector/", "common/", "proto/", "gordian/v1/"], r"cuda_runtime|nccl", []),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
# Text of programs that a program writes is no code of its own.
RAW_STRING = re.compile(r'R"([^()\\ ]{0,16})\(.*?\)\1"', re.S)


def check(root):
    problems = []
    for folder, (allowed, forbidden_system, forbidden_words) in RULES.items():
        seen = 0
        for at, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                path = os.path.join(at, name)
                shown = os.path.relpath(path, root)
                if name == "CMakeLists.txt":
                    with open(path) as f:
                        text = re.sub(r"#.*", "", f.read())
                    for word in forbidden_words:
                        if re.search(r"\b" + re.escape(word) + r"\b", text):
                            problems.append(f"{shown}: names {word}, which {folder}/ must not link")
                if not name.endswith((".h", ".cc", ".cu", ".S", ".def")):
                    continue
                seen += 1
                with open(path) as f:
                    text = f.read()
                for kind, target in INCLUDE.findall(RAW_STRING.sub('""', text)):
                    if kind == '"':
                        if not any(target.startswith(a) for a in allowed):
                            problems.append(f"{shown}: includes {target}; {folder}/ may include {', '.join(allowed)}")
                    elif re.search(forbidden_system, target):
                        problems.append(f"{shown}: includes <{target}>, which {folder}/ must not")
        if seen == 0:
            problems.append(f"{folder}/: no sources found (moved without its rule?)")
    for at, dirs, names in os.walk(root):
        dirs[:] = [d for d in dirs if not d.startswith(".") and d not in ("build", "node_modules")]
        for name in names:
            if name == "CMakeLists.txt" or name.endswith(".cmake"):
                with open(os.path.join(at, name)) as f:
                    if "GLOB" in f.read():
                        problems.append(f"{os.path.relpath(os.path.join(at, name), root)}: sources are listed, never globbed")
    return problems


def main():
    problems = check(sys.argv[1])
    for p in problems:
        print(p)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
