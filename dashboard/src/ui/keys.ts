// The keys that work everywhere on the page.
import { useEffect } from "preact/hooks";

import { go, kViews, routeHash } from "./route";

export const kKeys: readonly (readonly [string, string])[] = [
  ["1 – 8", "switch the view"],
  ["j, k or ↓, ↑", "move in the list"],
  ["Enter", "open what is selected"],
  ["x", "tick a job of the list, to compare two"],
  ["/", "go to the filter"],
  ["+, −, 0", "zoom the timeline, and show all of it"],
  ["Esc", "close, or leave the filter"],
  ["?", "show these keys"],
];

// Moves the focus among the elements PREFIX0, PREFIX1 ... of a list by j, k and arrows.
export function moveInList(event: KeyboardEvent, prefix: string, rows: number): void {
  const down = event.key === "ArrowDown" || event.key === "j";
  if ((!down && event.key !== "ArrowUp" && event.key !== "k") || isTyping(event.target)) return;
  event.preventDefault();
  const focused = document.activeElement?.id ?? "";
  const now = focused.startsWith(prefix) ? Number(focused.slice(prefix.length)) : -1;
  const to = Math.max(0, Math.min(rows - 1, now + (down ? 1 : -1)));
  document.getElementById(`${prefix}${to}`)?.focus();
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLInputElement ||
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement
  );
}

export function useKeys(job: string | null, help: boolean, setHelp: (on: boolean) => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.altKey || event.metaKey || event.defaultPrevented) return;
      if (event.key === "Escape") {
        if (help) setHelp(false);
        else if (isTyping(event.target)) (event.target as HTMLElement).blur();
        return;
      }
      const number = Number(event.key);
      if (isTyping(event.target)) return;
      if (Number.isInteger(number) && number >= 1 && number <= kViews.length && job !== null) {
        event.preventDefault();
        setHelp(false);
        go(routeHash(job, kViews[number - 1]!));
        return;
      }
      if (event.ctrlKey) return;
      if (event.key === "?") {
        event.preventDefault();
        setHelp(!help);
      } else if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("[data-filter]");
        if (filter === null) return;
        event.preventDefault();
        filter.focus();
        filter.select();
      } else if (event.key === "j" || event.key === "k") {
        const list = document.querySelector<HTMLElement>("[data-list]");
        const target = event.target;
        if (list === null || (target instanceof HTMLElement && target.closest("[data-list]"))) {
          return;
        }
        list.focus();
        list.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, cancelable: true }));
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [job, help, setHelp]);
}
