"""The result tables, as bench/results has them: {"id", "caption", "columns", "rows"}."""

import statistics

# What the named culprits are (judge.named), in the order of the tables.
NAMED = [("exact", "Exact"), ("tied", "tied"), ("wide", "wide"), ("wrong", "wrong"), ("side", "one side"), ("part", "in part"),
         ("other", "another mistake"), ("none", "none")]


def is_mistake(result):
    if result["truth"] in ("invalid", "unclear") or result.get("left"):
        return True
    if result["score"] in ("fp", "fn") or (result["truth"] == "ended" and result["confirmed"]):
        return True
    return result["score"] == "tp" and (result["kind"] != "right" or result["named"] in ("wide", "wrong", "none"))


def one_line(result):
    changes = ", ".join(f"{m['name']} at rank {m['rank']} {m['label']} {m['detail'] or ''}".strip()
                        for m in result["mutations"]) or "no mutation"
    if result["truth"] == "invalid":
        return f"INVALID {result['job']}: {result['why']}"
    return (f"{result['score'].upper()} {result['job']} ({result['ranks']} ranks; {changes}): {result['truth']}; said "
            f"{result['verdict']} ({result['confidence']}, {result['check']}) culprits {result['culprits']}"
            + (f" [{result['named']}], right are {result['accepted']}" if "named" in result else "")
            + (f"; kind {result['kind']}, true are {sorted(result['kinds'])}" if "kind" in result else "")
            + (f"; said meanwhile {result['confirmed'] + result['suspected']}" if result["score"] == "fp" else "")
            + (f"; left over {result['left']}" if result.get("left") else ""))


def count(results, score):
    return sum(r.get("score") == score for r in results)


def names(results, how):
    return sum(r.get("score") == "tp" and r["named"] == how for r in results)


def short(results):
    stuck = [r for r in results if r["truth"] == "stuck"]
    return f"{len(stuck)} stuck, kind right {sum(r['kind'] == 'right' for r in stuck)}, culprits " + \
        ", ".join(f"{title.lower()} {names(stuck, how)}" for how, title in NAMED) + \
        f"; {sum(r['truth'] == 'ended' for r in results)} ended right, {count(results, 'fp')} of them called troubled"


def share(part, whole):
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else "0"


def stuck_row(results, with_shares=False):
    """Cells of the jobs that are stuck: how many, verdict given, kind right, and the culprits."""
    stuck = [r for r in results if r["truth"] == "stuck"]
    cell = (lambda n: share(n, len(stuck))) if with_shares else (lambda n: n)
    return [len(stuck), count(stuck, "tp"), cell(sum(r["kind"] == "right" for r in stuck))] + \
        [cell(names(stuck, how)) for how, _ in NAMED]


STUCK = ["Stuck", "Verdict given", "Kind right"] + [title for _, title in NAMED]
NUMBERS_ENDED = ["Ended right", "of them past the threshold", "ever suspected", "ever confirmed"]


def ended_row(results, threshold_s):
    ended = [r for r in results if r["truth"] == "ended"]
    return [len(ended), sum(r["ran"] > threshold_s for r in ended), sum(bool(r["suspected"]) for r in ended),
            sum(bool(r["confirmed"]) for r in ended)]


def times(results):
    values = [r["seconds"] for r in results if r.get("score") == "tp" and r["seconds"] is not None]
    return [f"{max(0, statistics.median(values)):.2f} s", f"{max(values):.2f} s"] if values else ["–", "–"]


def tables(by_seed, default_seed, threshold_s):
    """All tables; those by family and by verdict of the default seed, or the first."""
    jobs = {seed: f"{len(results):,}" for seed, results in by_seed.items()}
    out = [{"id": "summary", "caption": "What was said of the jobs that are stuck", "columns": ["Seed", "Jobs"] + STUCK,
            "rows": [[f"`{seed}`", jobs[seed]] + stuck_row(results, True) for seed, results in sorted(by_seed.items())]},
           {"id": "ended", "caption": "What was said of the others, and how soon",
            "columns": ["Seed"] + NUMBERS_ENDED + ["Wrong data: said", "unsaid", "Invalid", "Stuck ones confirmed",
                                                   "Verdict after, median", "most"],
            "rows": [[f"`{seed}`"] + ended_row(results, threshold_s) +
                     [count(results, "said"), count(results, "unsaid"),
                      sum(r["truth"] in ("invalid", "unclear") for r in results),
                      sum(r.get("score") == "tp" and r["confidence"] == "confirmed" for r in results)] + times(results)
                     for seed, results in sorted(by_seed.items())]}]
    seed = default_seed if default_seed in by_seed else min(by_seed)
    results = by_seed[seed]
    families = sorted({r["table"] for r in results})
    rows = []
    for name in families + ["All"]:
        mine = [r for r in results if name in (r["table"], "All")]
        rows.append([name, len(mine)] + stuck_row(mine) + ended_row(mine, threshold_s)[::2])
    out.append({"id": "families", "caption": f"By family (seed {seed})",
                "columns": ["Family", "Jobs"] + STUCK + NUMBERS_ENDED[::2], "rows": rows})
    rows = []
    for said in sorted({r["verdict"] for r in results if r.get("score") == "tp"}):
        rows.append([f"`{said}`"] + stuck_row([r for r in results if r.get("score") == "tp" and r["verdict"] == said])[1:])
    out.append({"id": "verdicts", "caption": f"Stuck jobs, by what was said (seed {seed})",
                "columns": ["Verdict"] + STUCK[1:], "rows": rows})
    return out


def render(results, threshold_s):
    if not results:
        return "no results"
    seed = results[0]["seed"]
    lines = []
    for each in tables({seed: results}, seed, threshold_s):
        lines += [each["caption"], "", "| " + " | ".join(each["columns"]) + " |", "|" + "---|" * len(each["columns"])]
        lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in each["rows"]] + [""]
    other = [r for r in results if "alone" in r and r["alone"] != r["truth"]]
    lines.append(f"Watched, {len(other)} did something else than alone"
                 + (": " + ", ".join(sorted(r["job"] for r in other)) if other else "") + ".")
    return "\n".join(lines)
