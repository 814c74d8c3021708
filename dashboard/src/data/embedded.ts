// Finds and unpacks the document that a report carries in itself.
import { readPage } from "../model/read";
import type { PageDocument } from "../model/types";

// The element's text; null on the live page, which has no such element.
export function embeddedText(root: Document): string | null {
  return root.getElementById("gordian-data")?.textContent?.trim() ?? null;
}

export async function unpack(base64: string): Promise<PageDocument> {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return readPage(JSON.parse(await new Response(stream).text()));
}
