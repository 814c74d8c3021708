#!/usr/bin/env python3
"""check_verdict.py SESSION RANKS deadlock|finished: holds verdict.json against what must be said."""

import json
import os
import sys


def main():
    session, ranks, wanted = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(os.path.join(session, "verdict.json")) as f:
        verdict = json.load(f)
    name, confidence = verdict["verdict"], verdict["confidence"]
    culprits = sorted(verdict["culprit_ranks"])
    said = f"{name} ({confidence}), culprits {culprits}: {verdict['summary']}"
    problems = []
    if wanted == "deadlock":
        if name != "deadlock":
            problems.append("not a deadlock")
        if confidence != "confirmed":
            problems.append("not confirmed")
        # Of two ranks neither is the odd one out; of more it is the one that departs, the last.
        if culprits not in ([list(range(ranks)), [ranks - 1]] if ranks == 2 else [[ranks - 1]]):
            problems.append("not the ranks that disagree")
    else:
        if name != "finished" or verdict["findings"]:
            problems.append("a job that ends well has no findings")
    print(said)
    for key, value in sorted(verdict.get("evidence", {}).items()):
        print(f"  {key}: {json.dumps(value)}")
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
