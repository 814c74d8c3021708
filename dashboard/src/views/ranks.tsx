// The map of ranks and communicators, and the table of ranks under it.
import { useMemo, useRef, useState } from "preact/hooks";

import { heatMap, heatRows, type HeatMap, type HeatRow } from "../model/heat_map";
import {
  capitalised,
  count,
  cutTo,
  durationText,
  foldRanks,
  plural,
  ranksText,
} from "../model/text";
import type { RankStatus, Status } from "../model/types";
import { rankStateOf } from "../model/words";
import { useParam, usePage } from "../ui/context";
import { Grid, type Column } from "../ui/grid";
import { Filter, Notice, Toggle } from "../ui/parts";
import { ScrollCanvas, type Visible } from "../ui/scroll_canvas";
import { usePalette, useWidth } from "../ui/size";

const kRow = 18;

interface Cell {
  row: number;
  column: number;
}

interface Shape {
  label: number; // width of the column of ranks
  state: number; // width of the column of states
  header: number;
  cell: number;
}

function shapeOf(width: number, map: HeatMap, rows: readonly HeatRow[]): Shape {
  const longest = rows.reduce((most, row) => Math.max(most, rowLabel(row).length), 8);
  const narrow = width < 600;
  const label = Math.min(narrow ? 84 : 220, 20 + longest * 7);
  const state = narrow ? 26 : 80;
  const names = Math.max(2, ...map.columns.map((column) => column.label.length));
  const room = (width - label - state) / Math.max(1, map.columns.length);
  const cell = Math.max(28, Math.min(72, room));
  const header = names * 6.6 + 10 < cell ? 26 : Math.min(96, 20 + names * 4.6);
  return { label, state, header, cell: Math.floor(cell) };
}

function rowLabel(row: HeatRow): string {
  const known = row.ranks.filter((rank) => rank >= 0);
  const unknown = known.length < row.ranks.length ? ["?"] : [];
  const ranks = known.length > 0 ? [foldRanks(known, 3), ...unknown] : unknown;
  return (row.culprit ? "▶ " : "") + ranks.join(",");
}

// A rank that is in no call and has not ended is somewhere in its own code.
function callText(rank: RankStatus): string {
  return rank.call === "" && rank.state === "running" ? "in its own code" : rank.call;
}

function cellText(map: HeatMap, status: Status, row: HeatRow, column: number): string {
  const at = row.place * map.columns.length + column;
  const who = ranksText(row.ranks, 6);
  const comm = status.communicators[(map.comms[at] ?? 0) - 1];
  if (comm === undefined) {
    const own = map.columns[column]?.label ?? "";
    return `${capitalised(who)}: no member of ${own}`;
  }
  const behind = map.cells[at]! - 1;
  const place =
    comm.sequence_max < 0 ? "no collective yet" : `last collective #${comm.sequence_max}`;
  const state = behind > 0 ? `behind by ${plural(behind, "call")}` : "in step";
  return `${capitalised(who)} on ${comm.name}: ${state}; ${place}`;
}

function Heat(props: { status: Status; map: HeatMap; rows: HeatRow[] }) {
  const { status, map, rows } = props;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const palette = usePalette();
  const [cell, setCell] = useState<Cell | null>(null);
  const [reveal, setReveal] = useState<{ top: number; bottom: number; above: number } | null>(null);
  const shape = useMemo(() => shapeOf(width, map, rows), [width, map, rows]);
  const columns = map.columns.length;
  const contentWidth = shape.label + shape.state + columns * shape.cell;
  const contentHeight = shape.header + rows.length * kRow;
  const height = Math.min(contentHeight + 2, 460);

  const draw = (context: CanvasRenderingContext2D, visible: Visible) => {
    const font = "12px system-ui, sans-serif";
    context.font = font;
    context.textBaseline = "middle";
    const left = shape.label + shape.state;
    const first = Math.max(0, Math.floor(visible.top / kRow));
    const last = Math.min(rows.length, Math.ceil((visible.top + visible.height) / kRow));
    const firstColumn = Math.max(0, Math.floor(visible.left / shape.cell));
    const lastColumn = Math.min(
      columns,
      Math.ceil((visible.left + visible.width - left) / shape.cell),
    );
    for (let r = first; r < last; ++r) {
      const row = rows[r]!;
      const y = shape.header + r * kRow - visible.top;
      context.textAlign = "center";
      for (let c = firstColumn; c < lastColumn; ++c) {
        const value = map.cells[row.place * columns + c]!;
        const x = left + c * shape.cell - visible.left;
        if (value === 0) continue;
        context.fillStyle = palette(
          value === 1 ? "cell-step" : value < 4 ? "cell-behind" : "cell-far",
        );
        context.fillRect(x + 1, y + 1, shape.cell - 2, kRow - 2);
        context.fillStyle = palette(value === 1 ? "cell-step-text" : "cell-behind-text");
        const text = value === 1 ? "·" : `−${value - 1}`;
        context.fillText(cutTo(text, 5), x + shape.cell / 2, y + kRow / 2 + 0.5);
      }
    }
    context.fillStyle = palette("panel");
    context.fillRect(0, 0, left, visible.height);
    context.textAlign = "left";
    for (let r = first; r < last; ++r) {
      const row = rows[r]!;
      const y = shape.header + r * kRow - visible.top + kRow / 2 + 0.5;
      context.fillStyle = palette(row.culprit ? "bad-text" : "text");
      context.font = row.culprit ? "600 " + font : font;
      context.fillText(rowLabel(row), 6, y, shape.label - 10);
      context.font = font;
      const state = rankStateOf(map.ranks[row.place]!.state);
      context.fillStyle = palette(row.culprit ? "bad-text" : "dim");
      const words = shape.state > 40 ? `${state.sign} ${state.word}` : state.sign;
      context.fillText(words, shape.label + 6, y, shape.state - 10);
    }
    drawHeader(context, visible, left, firstColumn, lastColumn);
    if (cell !== null) {
      const x = left + cell.column * shape.cell - visible.left;
      const y = shape.header + cell.row * kRow - visible.top;
      if (x >= left - 1 && y >= shape.header - 1) {
        context.strokeStyle = palette("focus");
        context.lineWidth = 2;
        context.strokeRect(x, y, shape.cell, kRow);
      }
    }
  };

  const drawHeader = (
    context: CanvasRenderingContext2D,
    visible: Visible,
    left: number,
    firstColumn: number,
    lastColumn: number,
  ) => {
    context.fillStyle = palette("panel");
    context.fillRect(0, 0, visible.width, shape.header);
    context.fillStyle = palette("text");
    const turned = shape.header > 26;
    for (let c = firstColumn; c < lastColumn; ++c) {
      const x = left + c * shape.cell - visible.left;
      if (x < left - 1) continue;
      const label = cutTo(map.columns[c]!.label, 20);
      context.save();
      if (turned) {
        context.translate(x + shape.cell / 2, shape.header - 8);
        context.rotate(-Math.PI / 4);
        context.fillText(label, 0, 0);
      } else {
        context.textAlign = "center";
        context.fillText(label, x + shape.cell / 2, shape.header / 2);
      }
      context.restore();
    }
    context.fillStyle = palette("panel");
    context.fillRect(0, 0, left, shape.header);
    context.fillStyle = palette("dim");
    context.fillText("ranks", 6, shape.header - 12);
    context.fillText(shape.state > 40 ? "state" : "", shape.label + 6, shape.header - 12);
    context.fillStyle = palette("line");
    context.fillRect(0, shape.header - 1, visible.width, 1);
    context.fillRect(left - 1, 0, 1, visible.height);
  };

  const cellAt = (x: number, y: number, visible: Visible): Cell | null => {
    if (y < shape.header) return null;
    const row = Math.floor((y - shape.header + visible.top) / kRow);
    const left = shape.label + shape.state;
    const column = Math.max(0, Math.floor((x - left + visible.left) / shape.cell));
    return row >= rows.length || column >= columns ? null : { row, column };
  };

  const choose = (row: number, column: number) => {
    const to = {
      row: Math.max(0, Math.min(rows.length - 1, row)),
      column: Math.max(0, Math.min(columns - 1, column)),
    };
    setCell(to);
    const top = shape.header + to.row * kRow;
    setReveal({ top, bottom: top + kRow, above: shape.header });
  };

  const key = (event: KeyboardEvent): boolean => {
    if (event.ctrlKey || event.altKey || event.metaKey) return false;
    const at = cell ?? { row: -1, column: 0 };
    const moves: Record<string, [number, number]> = {
      ArrowDown: [1, 0],
      j: [1, 0],
      ArrowUp: [-1, 0],
      k: [-1, 0],
      ArrowRight: [0, 1],
      ArrowLeft: [0, -1],
      PageDown: [20, 0],
      PageUp: [-20, 0],
      Home: [-rows.length, 0],
      End: [rows.length, 0],
    };
    const by = moves[event.key];
    if (by === undefined || rows.length === 0 || columns === 0) return false;
    choose(at.row + by[0], at.column + by[1]);
    return true;
  };

  const row = cell === null ? undefined : rows[cell.row];
  return (
    <div ref={box}>
      <ScrollCanvas
        label="Map of ranks and communicators; arrow keys move from cell to cell"
        describedBy="heat-cell"
        contentWidth={contentWidth}
        contentHeight={contentHeight}
        height={height}
        draw={draw}
        onHover={(x, y, visible) => {
          const at = cellAt(x, y, visible);
          if (at?.row !== cell?.row || at?.column !== cell?.column) setCell(at);
        }}
        onPress={(x, y, visible) => setCell(cellAt(x, y, visible))}
        onKey={key}
        reveal={reveal}
      />
      <p id="heat-cell" class="inspector" aria-live="polite">
        {cell !== null && row !== undefined
          ? cellText(map, status, row, cell.column)
          : "Point at a cell, or move with the arrow keys."}
      </p>
    </div>
  );
}

function matches(rank: RankStatus, filter: string): boolean {
  if (filter === "") return true;
  const range = /^(\d+)(?:-(\d+))?$/.exec(filter);
  if (range !== null) {
    const from = Number(range[1]);
    const to = range[2] === undefined ? from : Number(range[2]);
    return rank.rank >= from && rank.rank <= to;
  }
  const wanted = filter.toLowerCase();
  const all = `${rankStateOf(rank.state).word} ${rank.ending} ${rank.call} ${rank.operation}
    ${rank.site} ${rank.node} pid ${rank.pid}`;
  return all.toLowerCase().includes(wanted);
}

const kWide: Column[] = [
  { title: "Rank", width: "64px", right: true },
  { title: "State", width: "minmax(90px, 150px)" },
  { title: "Call", width: "minmax(120px, 1fr)" },
  { title: "Operation not done", width: "minmax(150px, 1.3fr)" },
  { title: "Site", width: "minmax(120px, 1.5fr)" },
  { title: "Since", width: "92px", right: true },
  { title: "NCCL calls", width: "100px", right: true },
  { title: "Node", width: "minmax(60px, 110px)" },
  { title: "Pid", width: "84px", right: true },
];
const kNarrow: Column[] = [
  { title: "Rank", width: "64px", right: true },
  { title: "State", width: "88px" },
  { title: "Operation", width: "minmax(0, 1fr)" },
];

function RankTable(props: { ranks: RankStatus[]; culprits: ReadonlySet<number> }) {
  const { ranks, culprits } = props;
  const { page, since_progress_s } = usePage();
  // What has passed since the document came, while nothing moves.
  const later = Math.max(0, since_progress_s - (page.status?.since_progress_s ?? since_progress_s));
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [chosen, setChosen] = useParam("rank");
  const narrow = width < 700;
  const selected = chosen === "" ? -1 : ranks.findIndex((rank) => `${rank.rank}` === chosen);
  const cells = (row: number) => {
    const rank = ranks[row]!;
    const state = rankStateOf(rank.state);
    const word = rank.ending === "" || rank.ending === rank.state ? state.word : rank.ending;
    const stateCell = (
      <span title={word}>
        <span aria-hidden="true">{state.sign}</span> {word}
      </span>
    );
    const number = culprits.has(rank.rank) ? (
      <strong class="bad" title="A culprit">
        ▶ {rank.rank}
      </strong>
    ) : (
      <span title={rank.rank < 0 ? "Its rank is not known yet" : ""}>
        {rank.rank < 0 ? "?" : rank.rank}
      </span>
    );
    const since = rank.since_s < 0 ? "" : durationText(rank.since_s + later);
    if (narrow) {
      return [
        number,
        <div class="two-lines">
          <span>{stateCell}</span>
          <span class="dim">{since}</span>
        </div>,
        <div class="two-lines mono">
          <span>{rank.operation || callText(rank) || "–"}</span>
          <span class="dim">{[rank.call, rank.site].filter((t) => t !== "").join(" at ")}</span>
        </div>,
      ];
    }
    return [
      number,
      stateCell,
      <span class={rank.call === "" ? "dim" : "mono"} title={callText(rank)}>
        {callText(rank)}
      </span>,
      <span class="mono" title={rank.operation}>
        {rank.operation}
      </span>,
      <span class="mono" title={rank.site}>
        {rank.site}
      </span>,
      since,
      rank.nccl_calls < 0 ? "" : count(rank.nccl_calls),
      <span title={rank.node}>{rank.node}</span>,
      <span title={rank.incarnation > 1 ? `process ${rank.incarnation} of this rank` : ""}>
        {rank.pid}
        {rank.incarnation > 1 ? ` (${rank.incarnation})` : ""}
      </span>,
    ];
  };
  return (
    <div ref={box}>
      <Grid
        id="rank-row"
        label="Ranks"
        columns={narrow ? kNarrow : kWide}
        rows={ranks.length}
        rowHeight={narrow ? 46 : 26}
        maxHeight={460}
        minWidth={narrow ? 0 : 940}
        selected={selected}
        cells={cells}
        rowKey={(row) => `${ranks[row]!.rank}/${ranks[row]!.pid}`}
        onSelect={(row) => setChosen(`${ranks[row]!.rank}`)}
      />
    </div>
  );
}

export function RanksView() {
  const { page } = usePage();
  const [filter, setFilter] = useParam("filter");
  const [unfolded, setUnfolded] = useParam("unfolded");
  const [separate, setSeparate] = useParam("separate");
  const status = page.status;
  const map = useMemo(
    () => (status === null ? null : heatMap(status, separate !== "")),
    [status, separate],
  );
  const culprits = useMemo(
    () => new Set(page.verdict?.culprit_ranks ?? status?.culprit_ranks ?? []),
    [page.verdict, status],
  );
  const rows = useMemo(
    () =>
      map === null
        ? []
        : heatRows(map, culprits, unfolded === "", (rank) => matches(rank, filter.trim())),
    [map, culprits, unfolded, filter],
  );
  const listed = useMemo(() => {
    const wanted = (map?.ranks ?? []).filter((rank) => matches(rank, filter.trim()));
    const isCulprit = (rank: RankStatus) => Number(culprits.has(rank.rank));
    return wanted.sort((a, b) => isCulprit(b) - isCulprit(a) || a.rank - b.rank);
  }, [map, culprits, filter]);
  if (status === null || map === null) return <Notice>The page has no status of ranks.</Notice>;
  const total = map.ranks.length;
  return (
    <>
      <section class="card" aria-labelledby="map-title">
        <div class="card-head">
          <h2 id="map-title">Ranks × communicators</h2>
          <p class="dim">
            {plural(total, "rank")}, {plural(status.communicators.length, "communicator")}
            {listed.length !== total && `, ${count(listed.length)} match`}
          </p>
        </div>
        <div class="tools">
          <Filter label="Filter: 0-7, state, call, site" value={filter} onChange={setFilter} />
          <Toggle
            label="Fold equal ranks"
            on={unfolded === ""}
            onChange={(on) => setUnfolded(on ? "" : "1")}
          />
          <Toggle
            label="A column each"
            on={separate !== ""}
            onChange={(on) => setSeparate(on ? "1" : "")}
          />
          <ul class="legend">
            <li>
              <span class="swatch step">·</span> in step
            </li>
            <li>
              <span class="swatch behind">−n</span> behind by n calls
            </li>
            <li>
              <span class="swatch none"> </span> not a member
            </li>
            <li>
              <span class="bad">▶</span> culprit
            </li>
          </ul>
        </div>
        <Heat status={status} map={map} rows={rows} />
        {map.left_out > 0 && (
          <p class="dim">{plural(map.left_out, "communicator")} more have no column here.</p>
        )}
      </section>
      <section class="card" aria-labelledby="ranks-title">
        <h2 id="ranks-title">What each rank is at</h2>
        <RankTable ranks={listed} culprits={culprits} />
      </section>
    </>
  );
}
