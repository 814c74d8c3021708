// The table of communicators.
import { useMemo, useRef } from "preact/hooks";

import { count, foldRanks, plural, rankText, ranksText } from "../model/text";
import type { Communicator } from "../model/types";
import { useParam, usePage } from "../ui/context";
import { Grid, type Column } from "../ui/grid";
import { Filter, Notice } from "../ui/parts";
import { useWidth } from "../ui/size";
import { SourceLines } from "../ui/source";

const kWide: Column[] = [
  { title: "Name", width: "minmax(90px, 1fr)" },
  { title: "Ranks", width: "minmax(100px, 1.4fr)" },
  { title: "Size", width: "66px", right: true },
  { title: "Seen", width: "66px", right: true },
  { title: "Sequence", width: "92px", right: true },
  { title: "Behind", width: "minmax(100px, 1fr)" },
  { title: "Made by", width: "minmax(150px, 2fr)" },
  { title: "State", width: "96px" },
];
const kNarrow: Column[] = [
  { title: "Name and ranks", width: "minmax(0, 1fr)" },
  { title: "Sequence, behind", width: "minmax(0, 1fr)" },
];

function sequenceText(comm: Communicator): string {
  if (comm.sequence_max < 0) return "none";
  if (comm.sequence_min === comm.sequence_max) return `#${comm.sequence_max}`;
  return `#${comm.sequence_min} … #${comm.sequence_max}`.replace("#-1", "none");
}

function behindText(comm: Communicator): string {
  if (comm.behind.length === 0) return "";
  const most = comm.behind_by.reduce((a, b) => Math.max(a, b), 1);
  return `! ${ranksText(comm.behind, 3)}${most > 1 ? ` (by up to ${count(most)})` : ""}`;
}

// Who has not been seen may be behind, or not have joined at all.
function stepText(comm: Communicator): string {
  return comm.ranks_seen < comm.size ? `${count(comm.size - comm.ranks_seen)} not seen` : "in step";
}

function madeText(comm: Communicator): string {
  if (comm.made_by_rank < 0 && comm.site === "") return "";
  return `${rankText(comm.made_by_rank)}${comm.site === "" ? "" : ` at ${comm.site}`}`;
}

function Chosen(props: { comm: Communicator }) {
  const { comm } = props;
  return (
    <section class="card" aria-labelledby="comm-title">
      <h2 id="comm-title" class="mono">
        {comm.name}
      </h2>
      <dl class="facts">
        <dt>Identity</dt>
        <dd class="mono">{comm.uid}</dd>
        <dt>Members</dt>
        <dd>
          {ranksText(comm.ranks, 40)} ({count(comm.ranks_seen)} seen of {count(comm.size)})
        </dd>
        <dt>Behind</dt>
        <dd>
          {comm.behind.length === 0
            ? "no member that gordian has seen"
            : ranksText(comm.behind, 40)}
        </dd>
        <dt>Made by</dt>
        <dd>
          <span class="mono">{madeText(comm) || "unknown"}</span>
          <SourceLines site={comm.site} />
        </dd>
      </dl>
    </section>
  );
}

export function CommunicatorsView() {
  const { page } = usePage();
  const [filter, setFilter] = useParam("filter");
  const [chosen, setChosen] = useParam("comm");
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const status = page.status;
  const listed = useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    const all = status?.communicators ?? [];
    return all
      .filter((comm) => `${comm.name} ${comm.uid} ${comm.site}`.toLowerCase().includes(wanted))
      .sort(
        (a, b) =>
          Number(a.destroyed) - Number(b.destroyed) ||
          Number(b.behind.length > 0) - Number(a.behind.length > 0),
      );
  }, [status, filter]);
  if (status === null) return <Notice>The page has no status of communicators.</Notice>;
  const narrow = width < 700;
  const cells = (row: number) => {
    const comm = listed[row]!;
    const seen = `${count(comm.ranks_seen)}`;
    const behind = behindText(comm);
    if (narrow) {
      return [
        <div class="two-lines">
          <span class="mono">{comm.name}</span>
          <span class="dim">
            {foldRanks(comm.ranks, 3)} ({seen}/{comm.size})
          </span>
        </div>,
        <div class="two-lines">
          <span>
            {sequenceText(comm)}
            {comm.destroyed && " (destroyed)"}
          </span>
          <span class={behind === "" ? "dim" : "loud"}>{behind || stepText(comm)}</span>
        </div>,
      ];
    }
    return [
      <span class="mono" title={`${comm.name}, ${comm.uid}`}>
        {comm.name}
      </span>,
      <span title={foldRanks(comm.ranks, 40)}>{foldRanks(comm.ranks, 4)}</span>,
      count(comm.size),
      <span class={comm.ranks_seen < comm.size ? "loud" : ""}>{seen}</span>,
      sequenceText(comm),
      <span class={behind === "" ? "dim" : "loud"} title={behind}>
        {behind || stepText(comm)}
      </span>,
      <span class="mono" title={madeText(comm)}>
        {madeText(comm)}
      </span>,
      comm.destroyed ? "■ destroyed" : comm.ranks_seen < comm.size ? "incomplete" : "in use",
    ];
  };
  const selected = listed.findIndex((comm) => comm.uid === chosen);
  const comm = listed[selected];
  return (
    <>
      <section class="card" aria-labelledby="comms-title">
        <div class="card-head">
          <h2 id="comms-title">Communicators</h2>
          <p class="dim">
            {plural(status.communicators.length, "communicator")}
            {listed.length !== status.communicators.length && `, ${count(listed.length)} match`}
          </p>
        </div>
        <div class="tools">
          <Filter label="Filter: name, uid, site" value={filter} onChange={setFilter} />
        </div>
        <div ref={box}>
          <Grid
            id="comm-row"
            label="Communicators"
            columns={narrow ? kNarrow : kWide}
            rows={listed.length}
            rowHeight={narrow ? 46 : 26}
            maxHeight={560}
            minWidth={narrow ? 0 : 900}
            selected={selected}
            cells={cells}
            rowKey={(row) => `${listed[row]!.uid}/${row}`}
            onSelect={(row) => setChosen(listed[row]!.uid)}
          />
        </div>
        <p class="dim small">
          Sequence: the last collective that the slowest and the fastest member called. Some rank is
          nearly always behind; that alone is no fault.
        </p>
      </section>
      {comm !== undefined && <Chosen comm={comm} />}
    </>
  );
}
