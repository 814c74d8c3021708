// What every view needs: the document, the address, and how to change the address.
import { createContext } from "preact";
import { useContext } from "preact/hooks";

import type { PageDocument } from "../model/types";
import { go, parseRoute, routeHash, type View } from "./route";

export interface PageContext {
  page: PageDocument;
  job: string; // as in the address
  params: Readonly<Record<string, string>>;
  view: View;
  since_progress_s: number; // counts up while the job lives; -1: not known
}

const Context = createContext<PageContext | null>(null);
export const PageProvider = Context.Provider;

export function usePage(): PageContext {
  const context = useContext(Context);
  if (context === null) throw new Error("outside of a page");
  return context;
}

// Changes keys of the address's query; an empty value takes the key away.
export function useParam(key: string): [string, (value: string) => void] {
  const { job, view, params } = usePage();
  const set = (value: string) => {
    // Of two changes at once, the second must not undo the first: the address is what holds.
    const now = parseRoute(location.hash);
    if (now.view !== view) return;
    const changed = { ...now.params };
    if (value === "") delete changed[key];
    else changed[key] = value;
    go(routeHash(job, view, changed), true);
  };
  return [params[key] ?? "", set];
}
