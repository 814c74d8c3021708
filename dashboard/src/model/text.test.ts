import { expect, test } from "vitest";

import {
  bytesText,
  count,
  durationText,
  foldRanks,
  nanosText,
  operationText,
  printable,
  printableLines,
  ranksText,
  shellWord,
} from "./text";

test("foldRanks folds as the report does", () => {
  expect(foldRanks([0, 1, 2, 3, 4, 5, 7])).toBe("0-5,7");
  expect(foldRanks([1, 0])).toBe("0,1");
  expect(foldRanks([])).toBe("");
  expect(foldRanks([3, 3, 3])).toBe("3");
  expect(foldRanks([0, 2, 4, 6, 8], 2)).toBe("0,2 and 3 more");
});

test("ranksText counts", () => {
  expect(ranksText([4])).toBe("rank 4");
  expect(ranksText([4, 5])).toBe("ranks 4,5");
  expect(ranksText([])).toBe("no rank");
  expect(ranksText([-1])).toBe("an unknown rank");
});

test("printable shows what would turn or break a line", () => {
  expect(printable("a\u202Eb\nc\u0000")).toBe("a\\u202eb\\nc\\u0000");
  expect(printable("größe 模型")).toBe("größe 模型");
  expect(printable("x".repeat(9000)).length).toBeLessThan(8200);
  expect(printableLines("a\n\tb\u202E")).toBe("a\n\tb\\u202e");
});

test("numbers and sizes", () => {
  expect(count(16384)).toBe("16,384");
  expect(count(-1)).toBe("unknown");
  expect(bytesText(1)).toBe("1 byte");
  expect(bytesText(4096)).toBe("4.0 KiB");
  expect(bytesText(67108864)).toBe("64 MiB");
  expect(bytesText(-1)).toBe("");
  expect(nanosText(-1500)).toBe("−1.5 µs");
});

test("durations", () => {
  expect(durationText(0.061)).toBe("0.06 s");
  expect(durationText(59.9)).toBe("59 s");
  expect(durationText(185)).toBe("3 min 05 s");
  expect(durationText(7440)).toBe("2 h 04 min");
  expect(durationText(-1)).toBe("");
  expect(durationText(NaN)).toBe("");
});

test("operationText leaves out what is not known", () => {
  expect(operationText({ op: "AllReduce", seq: 3, comm_name: "dp" })).toBe("AllReduce #3 on dp");
  expect(operationText({ op: "", seq: -1, comm_name: "" })).toBe("an operation");
});

test("shellWord quotes what a shell would read", () => {
  expect(shellWord("runs/hung")).toBe("runs/hung");
  expect(shellWord("-x")).toBe("'-x'");
  expect(shellWord("a b; rm $x")).toBe("'a b; rm $x'");
  expect(shellWord("it's")).toBe("'it'\\''s'");
  expect(shellWord("")).toBe("''");
});
