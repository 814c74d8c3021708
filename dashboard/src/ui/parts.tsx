// Small pieces that several views use.
import type { ComponentChildren } from "preact";

import type { Frame } from "../model/types";
import { placeText } from "../model/flame";
import { kindOf, toneOf } from "../model/words";
import { usePage } from "./context";
import { routeHash, type View } from "./route";

export function KindChip(props: { verdict: string; confidence: string }) {
  const kind = kindOf(props.verdict);
  return (
    <span class={`chip tone-${toneOf(props.verdict, props.confidence)}`}>
      <span aria-hidden="true">{kind.sign}</span> {kind.title}
    </span>
  );
}

export function Notice(props: { children: ComponentChildren }) {
  return <p class="notice">{props.children}</p>;
}

// Says why the page has no history.
export function NoHistory(props: { what: string }) {
  const { page } = usePage();
  const calm = kindOf(page.verdict?.verdict ?? "").tone !== "bad";
  return (
    <Notice>
      {calm
        ? `The ${props.what} comes once gordian says that something is stuck.`
        : `This page has no ${props.what}: it was made without the session's trace, or that is ` +
          "too large. `gordian report` makes the page again from a session."}
    </Notice>
  );
}

export function ViewLink(props: {
  view: View;
  params?: Record<string, string>;
  class?: string;
  children: ComponentChildren;
}) {
  const { job } = usePage();
  return (
    <a class={props.class ?? ""} href={routeHash(job, props.view, props.params ?? {})}>
      {props.children}
    </a>
  );
}

// A text field that `/` focuses.
export function Filter(props: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <input
      class="filter"
      type="search"
      data-filter=""
      aria-label={props.label}
      placeholder={`${props.label}  ( / )`}
      value={props.value}
      spellcheck={false}
      autocomplete="off"
      onInput={(event) => props.onChange(event.currentTarget.value)}
    />
  );
}

export function Toggle(props: { label: string; on: boolean; onChange: (on: boolean) => void }) {
  return (
    <label class="toggle">
      <input
        type="checkbox"
        checked={props.on}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      {props.label}
    </label>
  );
}

export function FrameText(props: { frame: Frame; marked?: boolean }) {
  const { frame } = props;
  const at = placeText(frame);
  return (
    <span class={props.marked ? "frame marked" : "frame"}>
      {frame.python && <span class="tag">py</span>}
      <span class="mono">{frame.function === "" ? "(no name)" : frame.function}</span>
      {at !== "" && <span class="dim mono"> {at}</span>}
    </span>
  );
}
