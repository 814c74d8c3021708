// Makes the rows and columns of the map of ranks and communicators. Communicators that differ only
// by a number and share no rank, as tp0 and tp1, share a column.
import type { Communicator, RankStatus, Status } from "./types";

export interface HeatColumn {
  label: string;
  communicators: number[]; // places in Status.communicators
}

export interface HeatRow {
  ranks: number[];
  place: number; // of its first rank in HeatMap.ranks
  worst: number; // how many calls it is behind in its worst communicator
  culprit: boolean;
}

export interface HeatMap {
  ranks: RankStatus[];
  columns: HeatColumn[];
  // For each rank and column: 0 no member, 1 in step, 1 + n: n calls behind.
  cells: Int32Array;
  // For each rank and column: 1 + the place of the communicator.
  comms: Int32Array;
  left_out: number; // communicators without a column
}

const kMostColumns = 256;

// "tp12" and "tp {2,3}" -> "tp".
export function stemOf(name: string): string {
  return name.replace(/\s*\{[^}]*\}.*$/, "").replace(/[\d_.:-]+$/, "") || name;
}

interface OpenColumn {
  stem: string;
  taken: Uint8Array;
  communicators: number[];
}

function packColumns(
  communicators: readonly Communicator[],
  placeOf: ReadonlyMap<number, number>,
  separate: boolean,
): { columns: HeatColumn[]; left_out: number } {
  const open: OpenColumn[] = [];
  const byStem = new Map<string, OpenColumn[]>();
  let left_out = 0;
  communicators.forEach((comm, index) => {
    const places = comm.ranks.map((rank) => placeOf.get(rank)).filter((p) => p !== undefined);
    const stem = stemOf(comm.name);
    const candidates = separate ? [] : (byStem.get(stem) ?? []);
    const fits = candidates.find((column) => places.every((place) => column.taken[place] === 0));
    let column = fits;
    if (column === undefined) {
      if (open.length >= kMostColumns) {
        ++left_out;
        return;
      }
      column = { stem, taken: new Uint8Array(placeOf.size), communicators: [] };
      open.push(column);
      const same = byStem.get(stem);
      if (same === undefined) byStem.set(stem, [column]);
      else same.push(column);
    }
    for (const place of places) column.taken[place] = 1;
    column.communicators.push(index);
  });
  const columns = open.map((column) => ({
    label:
      column.communicators.length === 1
        ? communicators[column.communicators[0]!]!.name || "comm"
        : `${column.stem}*`,
    communicators: column.communicators,
  }));
  return { columns, left_out };
}

export function heatMap(status: Status, separate = false): HeatMap {
  const ranks = [...status.ranks].sort((a, b) => a.rank - b.rank);
  const placeOf = new Map<number, number>();
  ranks.forEach((rank, place) => placeOf.set(rank.rank, place));
  const { columns, left_out } = packColumns(status.communicators, placeOf, separate);
  const cells = new Int32Array(ranks.length * columns.length);
  const comms = new Int32Array(ranks.length * columns.length);
  columns.forEach((column, c) => {
    for (const index of column.communicators) {
      const comm = status.communicators[index]!;
      for (const rank of comm.ranks) {
        const place = placeOf.get(rank);
        if (place === undefined) continue;
        cells[place * columns.length + c] = 1;
        comms[place * columns.length + c] = index + 1;
      }
      comm.behind.forEach((rank, i) => {
        const place = placeOf.get(rank);
        if (place === undefined) return;
        cells[place * columns.length + c] = 1 + comm.behind_by[i]!;
        comms[place * columns.length + c] = index + 1;
      });
    }
  });
  return { ranks, columns, cells, comms, left_out };
}

// One row a rank, or one a set of ranks of equal state; who is furthest behind comes first.
export function heatRows(
  map: HeatMap,
  culprits: ReadonlySet<number>,
  folded: boolean,
  wanted: (rank: RankStatus) => boolean,
): HeatRow[] {
  const width = map.columns.length;
  const rows: HeatRow[] = [];
  const byState = new Map<string, HeatRow>();
  map.ranks.forEach((rank, place) => {
    if (!wanted(rank)) return;
    const culprit = culprits.has(rank.rank);
    let worst = 0;
    for (let c = 0; c < width; ++c) worst = Math.max(worst, map.cells[place * width + c]! - 1);
    if (folded) {
      const cells = map.cells.subarray(place * width, (place + 1) * width).join();
      const key = `${rank.state}/${culprit}/${cells}`;
      const same = byState.get(key);
      if (same !== undefined) {
        same.ranks.push(rank.rank);
        return;
      }
      const row = { ranks: [rank.rank], place, worst, culprit };
      byState.set(key, row);
      rows.push(row);
      return;
    }
    rows.push({ ranks: [rank.rank], place, worst, culprit });
  });
  rows.sort(
    (a, b) =>
      Number(b.culprit) - Number(a.culprit) || b.worst - a.worst || a.ranks[0]! - b.ranks[0]!,
  );
  return rows;
}
