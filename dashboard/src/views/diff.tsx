// The operations of two ranks side by side, from where they part.
import { useMemo, useState } from "preact/hooks";

import { historyDiff, stuckDiff, type DiffEntry, type DiffRow } from "../model/diff";
import { bytesText, operationText, plural } from "../model/text";
import type { PageDocument } from "../model/types";
import { useParam, usePage } from "../ui/context";
import { NoHistory, Notice } from "../ui/parts";

const kBefore = 3; // rows to show before the first difference
const kWithoutDifference = 40; // rows to show if there is none
const kMostRows = 400;

function knownRanks(page: PageDocument): number[] {
  const ranks = new Set<number>();
  page.status?.ranks.forEach((rank) => ranks.add(rank.rank));
  page.history?.streams.forEach((stream) => ranks.add(stream.rank));
  page.verdict?.operations.forEach((o) => o.members.forEach((member) => ranks.add(member.rank)));
  return [...ranks].filter((rank) => rank >= 0).sort((a, b) => a - b);
}

// The two first culprits, else a culprit and a victim, else the first two ranks.
function firstPair(page: PageDocument, ranks: readonly number[]): [number, number] {
  const verdict = page.verdict;
  const wanted = [
    ...(verdict?.culprit_ranks ?? []),
    ...(verdict?.cycle.map((edge) => edge.rank) ?? []),
    ...(verdict?.victim_ranks ?? []),
    ...ranks,
  ];
  const distinct = [...new Set(wanted)];
  return [distinct[0] ?? 0, distinct[1] ?? distinct[0] ?? 0];
}

function Entry(props: { entry: DiffEntry | null; absent: string }) {
  const { entry } = props;
  if (entry === null) return <span class="absent">{props.absent}</span>;
  return (
    <>
      <span class="mono">{operationText(entry)}</span>{" "}
      <span class="dim">
        {[entry.bytes > 0 ? bytesText(entry.bytes) : "", entry.remark, entry.state]
          .filter((text) => text !== "")
          .join(" · ")}
      </span>
      {entry.site !== "" && <span class="mono site entry-site">{entry.site}</span>}
    </>
  );
}

// Says whether the rank has the operation elsewhere in its order.
function absentText(rows: readonly DiffRow[], at: number, side: "left" | "right", rank: number) {
  const other = side === "left" ? "right" : "left";
  const key = rows[at]?.[other]?.key;
  const elsewhere = rows.findIndex((row) => row[side]?.key === key && row[side] !== null);
  if (elsewhere < 0) return `– rank ${rank} has not called it`;
  return elsewhere > at ? `↓ comes later at rank ${rank}` : `↑ came earlier at rank ${rank}`;
}

function RankField(props: {
  label: string;
  value: number;
  known: readonly number[];
  onChange: (value: string) => void;
}) {
  const last = props.known[props.known.length - 1] ?? 0;
  return (
    <label class="field">
      {props.label}
      <input
        type="number"
        min={props.known[0] ?? 0}
        max={last}
        value={props.value}
        onChange={(event) => props.onChange(event.currentTarget.value)}
      />
    </label>
  );
}

function Rows(props: { rows: DiffRow[]; first: number; left: number; right: number }) {
  const { rows, first, left, right } = props;
  const [all, setAll] = useState(false);
  const wanted = first < 0 ? rows.length - kWithoutDifference : first - kBefore;
  const start = all ? 0 : Math.max(0, wanted);
  const shown = rows.slice(start, start + kMostRows);
  return (
    <>
      {start > 0 && (
        <p>
          <button type="button" class="button" onClick={() => setAll(true)}>
            {`Show ${plural(start, "earlier operation")}, the same at both`}
          </button>
        </p>
      )}
      <div
        class="table-scroll tall"
        tabIndex={0}
        role="region"
        aria-label="Operations side by side"
      >
        <table class="diff">
          <thead>
            <tr>
              <th class="mark">
                <span class="off-screen">Difference</span>
              </th>
              <th>rank {left}</th>
              <th>rank {right}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row, i) => {
              const isFirst = start + i === first;
              const kind = row.same ? "same" : isFirst ? "first" : "differs";
              return (
                <tr key={start + i} class={kind}>
                  <td class="mark">{row.same ? "=" : isFirst ? "▶ parts here" : "≠"}</td>
                  <td>
                    <Entry
                      entry={row.left}
                      absent={row.left === null ? absentText(rows, start + i, "left", left) : ""}
                    />
                  </td>
                  <td>
                    <Entry
                      entry={row.right}
                      absent={row.right === null ? absentText(rows, start + i, "right", right) : ""}
                    />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {rows.length > start + kMostRows && (
        <p class="dim">and {plural(rows.length - start - kMostRows, "more operation")}</p>
      )}
    </>
  );
}

export function DiffView() {
  const { page } = usePage();
  const [a, setA] = useParam("a");
  const [b, setB] = useParam("b");
  const known = useMemo(() => knownRanks(page), [page]);
  const [firstA, firstB] = firstPair(page, known);
  const left = a === "" ? firstA : Number(a);
  const right = b === "" ? firstB : Number(b);
  const { history, verdict } = page;
  const { diff, ordered } = useMemo(() => {
    const stuck = verdict?.operations ?? [];
    const whole = history && historyDiff(history, stuck, left, right);
    return whole !== null && whole.rows.length > 0
      ? { diff: whole, ordered: true }
      : { diff: stuckDiff(stuck, left, right), ordered: false };
  }, [history, verdict, left, right]);
  if (known.length < 2) return <Notice>There are no two ranks to compare.</Notice>;
  return (
    <section class="card" aria-labelledby="diff-title">
      <h2 id="diff-title">{`Rank ${left} beside rank ${right}`}</h2>
      <div class="tools">
        <RankField label="Left rank" value={left} known={known} onChange={setA} />
        <RankField label="Right rank" value={right} known={known} onChange={setB} />
        <button
          type="button"
          class="button"
          onClick={() => {
            setA(`${right}`);
            setB(`${left}`);
          }}
        >
          Swap
        </button>
        <p class="dim">
          {diff.shared.length === 0
            ? "They share no communicator with operations that this page knows."
            : `On ${diff.shared.slice(0, 8).join(", ")}${diff.shared.length > 8 ? " …" : ""}`}
        </p>
      </div>
      {history === null && <NoHistory what="order of calls" />}
      {diff.rows.length > 0 && (
        <>
          <p>
            {diff.first < 0
              ? "No difference in what this page knows."
              : ordered
                ? "▶ marks where the two part."
                : "▶ marks the first stuck operation that they are at differently."}
          </p>
          <Rows rows={diff.rows} first={diff.first} left={left} right={right} />
        </>
      )}
    </section>
  );
}
