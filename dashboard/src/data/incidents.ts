// Asks the server for its incidents, and acknowledges one.
import { readIncidents } from "../model/read";
import { printable } from "../model/text";
import type { Incident } from "../model/types";
import { authorization } from "./token";

const kLongestAnswer = 30000;

// Throws what to tell a person, as that the server's store cannot be used.
export async function fetchIncidents(): Promise<Incident[]> {
  const signal = AbortSignal.timeout(kLongestAnswer);
  const response = await fetch("api/v1/incidents", { headers: authorization(), signal });
  if (!response.ok) throw new Error(await refusal(response));
  return readIncidents(await response.json());
}

// Throws what to tell a person.
export async function acknowledge(id: string, by: string, note: string): Promise<void> {
  const response = await fetch(`api/v1/incidents/${encodeURIComponent(id)}/acknowledge`, {
    method: "POST",
    headers: { ...authorization(), "Content-Type": "application/json" },
    body: JSON.stringify({ by, note }),
    signal: AbortSignal.timeout(kLongestAnswer),
  });
  if (!response.ok) throw new Error(await refusal(response));
}

async function refusal(response: Response): Promise<string> {
  const said = printable((await response.text()).trim());
  return said === "" ? `The server answered ${response.status}.` : `The server answered ${said}`;
}
