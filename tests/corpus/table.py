"""The result tables."""

import statistics


def is_mistake(result):
    if result["truth"] in ("invalid", "unclear") or result.get("left"):
        return True
    if result["score"] in ("fp", "fn") or (result["truth"] == "ended" and result["confirmed"]):
        return True
    return result["score"] == "tp" and result["named"] not in ("right", "tie", "part", "further")


def one_line(result):
    changes = ", ".join(f"{m['name']} at rank {m['rank']} {m['label']} {m['detail'] or ''}".strip()
                        for m in result["mutations"]) or "no mutation"
    if result["truth"] == "invalid":
        return f"INVALID {result['job']}: {result['why']}"
    return (f"{result['score'].upper()} {result['job']} ({result['ranks']} ranks; {changes}): {result['truth']}; said "
            f"{result['verdict']} ({result['confidence']}, {result['check']}) culprits {result['culprits']}"
            + (f" [{result['named']}], right are {result['accepted']}" if "named" in result else "")
            + (f"; left over {result['left']}" if result.get("left") else ""))


def count(results, score):
    return sum(r.get("score") == score for r in results)


def names(results, score, named):
    return sum(r.get("score") == score and r.get("named") == named for r in results)


def short(results):
    return ", ".join(f"{score} {count(results, score)}" for score in ("tp", "fp", "tn", "fn", "said", "unsaid")) + \
        f", culprits wrong " + \
        str(sum(names(results, "tp", how) for how in ("wide", "wrong", "nobody")))


def percent(part, whole):
    return "–" if whole == 0 else f"{100 * part / whole:.1f} %" if part != whole else "100 %"


def render(results):
    rows = ["| Table | Jobs | tp | fp | tn | fn | Precision | Recall | Confirmed | Culprits right | tied | in part | further | too many | wrong | none "
            "| Wrong data: said | unsaid | Invalid | Verdict after, median | most |",
            "|" + "---|" * 21]
    tables = sorted({r["table"] for r in results})
    for name in tables + ["All"]:
        mine = [r for r in results if name in (r["table"], "All")]
        tp, fp, tn, fn = (count(mine, s) for s in ("tp", "fp", "tn", "fn"))
        times = [r["seconds"] for r in mine if r.get("score") == "tp" and r["seconds"] is not None]
        cells = [name, len(mine), tp, fp, tn, fn, percent(tp, tp + fp), percent(tp, tp + fn),
                 sum(r.get("score") == "tp" and r["confidence"] == "confirmed" for r in mine)]
        cells += [names(mine, "tp", how) for how in ("right", "tie", "part", "further", "wide", "wrong", "nobody")]
        cells += [count(mine, "said"), count(mine, "unsaid"),
                  sum(r["truth"] in ("invalid", "unclear") for r in mine)]
        cells += [f"{max(0, statistics.median(times)):.2f} s", f"{max(times):.2f} s"] if times else ["–", "–"]
        rows.append("| " + " | ".join(str(c) for c in cells) + " |")
    rows += ["", "| Culprits of stuck jobs, by what was said | Right | tied | in part | further | too many | wrong | none |",
             "|" + "---|" * 8]
    for said in sorted({r["verdict"] for r in results if r.get("score") == "tp"}):
        mine = [r for r in results if r.get("score") == "tp" and r["verdict"] == said]
        rows.append("| " + " | ".join(str(c) for c in [f"`{said}`"] + [
            names(mine, "tp", how) for how in ("right", "tie", "part", "further", "wide", "wrong", "nobody")]) + " |")
    rows.append("")
    healthy = [r for r in results if r["truth"] == "ended"]
    rows.append(f"{len(healthy)} jobs ended with the right data; confirmed trouble was said of "
                f"{sum(bool(r['confirmed']) for r in healthy)} of them.")
    other = [r for r in results if "alone" in r and r["alone"] != r["truth"]]
    rows.append(f"Watched, {len(other)} did something else than alone"
                + (": " + ", ".join(sorted(r["job"] for r in other)) if other else "") + ".")
    return "\n".join(rows)
