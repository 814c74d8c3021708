// A table of very many rows, of which only the visible ones are in the document. Arrow keys or j/k
// move, Enter opens.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column {
  title: string;
  width: string; // a track of a CSS grid
  right?: boolean;
}

interface Props {
  id: string;
  label: string;
  columns: Column[];
  rows: number;
  rowHeight: number;
  maxHeight: number;
  minWidth?: number;
  selected: number;
  cells: (row: number) => ComponentChildren[];
  rowKey: (row: number) => string;
  rowClass?: (row: number) => string;
  onSelect: (row: number) => void;
  onOpen?: (row: number) => void;
}

const kHeader = 28;
const kAround = 8;

export function Grid(props: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(props.maxHeight);
  useLayoutEffect(() => {
    const at = scroller.current;
    if (at === null) return undefined;
    const observer = new ResizeObserver(() => setHeight(at.clientHeight));
    observer.observe(at);
    return () => observer.disconnect();
  }, []);

  const tracks = props.columns.map((column) => column.width).join(" ");
  const first = Math.max(0, Math.floor(top / props.rowHeight) - kAround);
  const last = Math.min(props.rows, Math.ceil((top + height) / props.rowHeight) + kAround);

  useEffect(() => {
    const at = scroller.current;
    if (at === null || props.selected < 0 || document.activeElement !== at) return;
    const rowTop = props.selected * props.rowHeight;
    if (rowTop < at.scrollTop) at.scrollTop = rowTop;
    const over = rowTop + props.rowHeight + kHeader - (at.scrollTop + at.clientHeight);
    if (over > 0) at.scrollTop += over;
  }, [props.selected, props.rowHeight]);

  const move = (by: number) => {
    if (props.rows === 0) return;
    const to = props.selected < 0 ? 0 : props.selected + by;
    props.onSelect(Math.min(props.rows - 1, Math.max(0, to)));
  };
  const page = Math.max(1, Math.floor((height - kHeader) / props.rowHeight) - 1);
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(1),
    j: () => move(1),
    ArrowUp: () => move(-1),
    k: () => move(-1),
    PageDown: () => move(page),
    PageUp: () => move(-page),
    Home: () => props.onSelect(0),
    End: () => props.onSelect(props.rows - 1),
    Enter: () => {
      if (props.selected >= 0) props.onOpen?.(props.selected);
    },
  };
  const shown: number[] = [];
  for (let row = first; row < last; ++row) shown.push(row);
  const inView = props.selected >= first && props.selected < last;
  return (
    <div
      ref={scroller}
      class="grid"
      role="grid"
      aria-label={props.label}
      aria-rowcount={props.rows + 1}
      aria-activedescendant={inView ? `${props.id}-${props.selected}` : undefined}
      tabIndex={0}
      data-list=""
      style={{ maxHeight: `${props.maxHeight}px` }}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={(event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const act = keys[event.key];
        if (act === undefined) return;
        event.preventDefault();
        act();
      }}
    >
      <div class="grid-inner" role="rowgroup" style={{ minWidth: `${props.minWidth ?? 0}px` }}>
        <div
          class="grid-row grid-header"
          role="row"
          aria-rowindex={1}
          style={{ gridTemplateColumns: tracks }}
        >
          {props.columns.map((column) => (
            <div role="columnheader" class={column.right ? "right" : ""} key={column.title}>
              {column.title}
            </div>
          ))}
        </div>
        <div role="presentation" style={{ height: `${first * props.rowHeight}px` }} />
        {shown.map((row) => (
          <div
            key={props.rowKey(row)}
            id={`${props.id}-${row}`}
            role="row"
            aria-rowindex={row + 2}
            aria-selected={row === props.selected}
            class={`grid-row ${props.rowClass?.(row) ?? ""}`}
            style={{ gridTemplateColumns: tracks, height: `${props.rowHeight}px` }}
            onClick={() => {
              props.onSelect(row);
              props.onOpen?.(row);
            }}
          >
            {props.cells(row).map((cell, i) => (
              <div role="gridcell" key={i} class={props.columns[i]?.right ? "right" : ""}>
                {cell}
              </div>
            ))}
          </div>
        ))}
        <div
          role="presentation"
          style={{ height: `${Math.max(0, props.rows - last) * props.rowHeight}px` }}
        />
      </div>
    </div>
  );
}
