// Asks the server for the document of one job.
import { readPage } from "../model/read";
import { printable } from "../model/text";
import type { PageDocument } from "../model/types";
import { authorization } from "./token";

const kLongestAnswer = 30000;

// Throws what to tell a person.
export async function fetchPage(job: string): Promise<PageDocument> {
  const signal = AbortSignal.timeout(kLongestAnswer);
  const address = `api/v1/jobs/${encodeURIComponent(job)}`;
  const response = await fetch(address, { headers: authorization(), signal });
  if (response.status === 404) throw new Error(`The server has no job ${printable(job)}.`);
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return readPage(await response.json());
}
