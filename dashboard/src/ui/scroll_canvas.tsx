// A canvas over content of any size: it scrolls natively, and only what is visible is drawn, once a
// frame at most.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

export interface Visible {
  left: number;
  top: number;
  width: number;
  height: number;
}

interface Props {
  label: string;
  describedBy?: string;
  contentWidth: number;
  contentHeight: number;
  height: number;
  draw: (context: CanvasRenderingContext2D, visible: Visible) => void;
  // Positions are in the visible part, not in the content.
  onHover?: (x: number, y: number, visible: Visible) => void;
  onLeave?: () => void;
  onPress?: (x: number, y: number, visible: Visible) => void;
  onDrag?: (dx: number) => void;
  // Returns true if it took the turn of the wheel.
  onWheel?: (event: WheelEvent, x: number) => boolean;
  // Returns true if it took the key.
  onKey?: (event: KeyboardEvent) => boolean;
  // The part of the content to bring into view; a new object asks again.
  reveal?: { top: number; bottom: number; above: number } | null;
  children?: ComponentChildren;
}

export function ScrollCanvas(props: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const frame = useRef(0);
  const drag = useRef<{ x: number; moved: boolean } | null>(null);

  const visible = (): Visible => {
    const at = scroller.current;
    return {
      left: at?.scrollLeft ?? 0,
      top: at?.scrollTop ?? 0,
      width: at?.clientWidth ?? 0,
      height: at?.clientHeight ?? 0,
    };
  };

  const paint = () => {
    frame.current = 0;
    const target = canvas.current;
    const context = target?.getContext("2d");
    if (target === null || context === null || context === undefined) return;
    const view = visible();
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(view.width * ratio);
    const height = Math.round(view.height * ratio);
    if (target.width !== width || target.height !== height) {
      target.width = width;
      target.height = height;
      target.style.width = `${view.width}px`;
      target.style.height = `${view.height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    latest.current.draw(context, view);
  };

  const ask = () => {
    if (frame.current === 0) frame.current = requestAnimationFrame(paint);
  };

  useLayoutEffect(ask);
  useEffect(() => {
    const at = scroller.current;
    if (at === null) return undefined;
    const observer = new ResizeObserver(ask);
    observer.observe(at);
    const wheel = (event: WheelEvent) => {
      const x = event.clientX - at.getBoundingClientRect().left;
      if (latest.current.onWheel?.(event, x)) event.preventDefault();
    };
    at.addEventListener("wheel", wheel, { passive: false });
    return () => {
      observer.disconnect();
      at.removeEventListener("wheel", wheel);
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, []);

  useEffect(() => {
    const at = scroller.current;
    const reveal = props.reveal;
    if (at === null || reveal === null || reveal === undefined) return;
    if (reveal.top - reveal.above < at.scrollTop) at.scrollTop = reveal.top - reveal.above;
    const over = reveal.bottom - (at.scrollTop + at.clientHeight);
    if (over > 0) at.scrollTop += over;
  }, [props.reveal]);

  const position = (event: PointerEvent): [number, number] => {
    const box = scroller.current!.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  return (
    <div
      ref={scroller}
      class={props.onDrag === undefined ? "scroller" : "scroller draggable"}
      style={{ height: `${props.height}px` }}
      tabIndex={0}
      role="application"
      aria-label={props.label}
      aria-describedby={props.describedBy}
      data-list=""
      onScroll={ask}
      onKeyDown={(event) => {
        if (latest.current.onKey?.(event)) event.preventDefault();
      }}
      onPointerDown={(event) => {
        drag.current = { x: event.clientX, moved: false };
      }}
      onPointerMove={(event) => {
        const [x, y] = position(event);
        const dragged = drag.current;
        if (dragged !== null && props.onDrag !== undefined && event.buttons === 1) {
          const dx = event.clientX - dragged.x;
          if (dragged.moved || Math.abs(dx) > 3) {
            dragged.moved = true;
            dragged.x = event.clientX;
            props.onDrag(dx);
          }
          return;
        }
        props.onHover?.(x, y, visible());
      }}
      onPointerLeave={() => props.onLeave?.()}
      onPointerUp={(event) => {
        const [x, y] = position(event);
        const moved = drag.current?.moved ?? false;
        drag.current = null;
        if (!moved) props.onPress?.(x, y, visible());
      }}
    >
      <div
        class="scroller-content"
        style={{ width: `${props.contentWidth}px`, height: `${props.contentHeight}px` }}
      >
        <canvas ref={canvas} />
      </div>
      {props.children}
    </div>
  );
}
