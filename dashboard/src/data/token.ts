// Keeps the server's token for this tab, out of the address and of the history.

const kKey = "gordian-token";

// Takes `#token=...` out of the address, if it is there.
export function takeTokenFromAddress(): void {
  const match = /^#(.*?)&?token=([^&]*)(.*)$/.exec(location.hash);
  if (match === null) return;
  const rest = `${match[1] ?? ""}${match[3] ?? ""}`.replace(/^&/, "");
  const clean = rest === "" ? location.pathname + location.search : `#${rest}`;
  history.replaceState(null, "", clean);
  try {
    keepToken(decodeURIComponent(match[2] ?? ""));
  } catch {
    keepToken(match[2] ?? "");
  }
}

export function keepToken(token: string): void {
  sessionStorage.setItem(kKey, token);
}

export function authorization(): Record<string, string> {
  const token = sessionStorage.getItem(kKey);
  return token === null || token === "" ? {} : { Authorization: `Bearer ${token}` };
}
